"""`BatchFunction` in sessions: steps at the same time call a function once, and each gets its own rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.ir.attrs import FuncAttr

#: x -> x + c and how many rows there were, for each row.
LIBRARY = """
library { function {
  signature { name: "shifted" input_arg { name: "x" type: DT_INT32 } input_arg { name: "c" type: DT_INT32 }
    output_arg { name: "y" type: DT_INT32 } output_arg { name: "rows" type: DT_INT32 } }
  node_def { name: "sum" op: "AddV2" input: "x" input: "c" attr { key: "T" value { type: DT_INT32 } } }
  node_def { name: "shape" op: "Shape" input: "x" attr { key: "T" value { type: DT_INT32 } } }
  node_def { name: "zeros" op: "ZerosLike" input: "x" attr { key: "T" value { type: DT_INT32 } } }
  node_def { name: "rows" op: "AddV2" input: "zeros:y:0" input: "shape:output:0"
    attr { key: "T" value { type: DT_INT32 } } }
  ret { key: "y" value: "sum:z:0" } ret { key: "rows" value: "rows:z:0" } } }
"""


def serving(types: Any = ("int32", "int32"), **attrs: Any) -> fe.Graph:
    graph = fe.Graph.from_graph_def(LIBRARY)
    x = graph.placeholder("int32", [None], name="x")
    options = {"num_batch_threads": 1, "max_batch_size": 8, "batch_timeout_micros": 500_000}
    graph.ops.BatchFunction(
        [x], [np.int32(100)], f=FuncAttr("shifted", {}), Tout=types, name="b", **options | attrs
    )
    return graph


async def test_steps_at_the_same_time_share_a_call(autojump_clock: trio.testing.MockClock) -> None:
    graph = serving(allowed_batch_sizes=[4, 8])
    found: dict[int, Any] = {}
    async with fe.Session(graph) as session:

        async def step(number: int) -> None:
            found[number] = [
                each.tolist() for each in await session.run(["b:0", "b:1"], {"x:0": [number] * number})
            ]

        async with trio.open_nursery() as nursery:
            for number in (1, 2, 3):
                nursery.start_soon(step, number)
    assert found == {number: [[100 + number] * number, [8] * number] for number in (1, 2, 3)}
    assert autojump_clock.autojump_threshold == 0


async def test_two_sessions_of_one_manager_share_a_queue(autojump_clock: trio.testing.MockClock) -> None:
    resources = fe.ResourceManager()
    found: list[Any] = []

    async def step(graph: fe.Graph) -> None:
        async with fe.Session(graph, resources=resources) as session:
            found.append((await session.run("b:1", {"x:0": [1]})).tolist())

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(step, serving(shared_name="one"))
    assert found == [[2], [2]]
    # Both have ended; a third finds the queue and calls the function itself.
    await step(serving(shared_name="one"))
    assert found[2:] == [[1]]
    assert autojump_clock.autojump_threshold == 0


async def test_a_step_has_its_deadline_and_a_session_its_end(autojump_clock: trio.testing.MockClock) -> None:
    async with fe.Session(serving(batch_timeout_micros=60_000_000)) as session:
        with pytest.raises(fe.errors.DeadlineExceededError):
            await session.run("b:0", {"x:0": [1]}, options=fe.RunOptions(timeout_seconds=1))

        async def interrupted() -> None:
            with pytest.raises(fe.errors.CancelledError):
                await session.run("b:0", {"x:0": [1]})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(interrupted)
            await trio.testing.wait_all_tasks_blocked()
            await session.close()
    assert trio.current_time() == pytest.approx(autojump_clock.current_time())


@pytest.mark.parametrize(
    ("types", "feed", "message"),
    [
        (["int32", "int32"], [1] * 9, "Task size 9 is larger than maximum batch size 8"),
        (["float32", "int32"], [1], "is int32, the node's is float32"),
        (["int32"], [1], "has 2 results, not 1"),
    ],
)
async def test_what_is_refused(
    autojump_clock: trio.testing.MockClock, types: list[str], feed: list[int], message: str
) -> None:
    async with fe.Session(serving(types)) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=message):
            await session.run("b:0", {"x:0": feed})
    assert autojump_clock.autojump_threshold == 0
