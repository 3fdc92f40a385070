"""A few seconds: does the engine import, add, branch, loop, wait and fail as it should?"""

from __future__ import annotations

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe

pytestmark = pytest.mark.everywhere


def scalar(name: str, value: float) -> str:
    tensor = f"tensor {{ dtype: DT_FLOAT tensor_shape {{}} float_val: {value} }}"
    return node(name, "Const", dtype="type: DT_FLOAT", value=tensor)


def node(name: str, op: str, *inputs: str, **attrs: str) -> str:
    lines = [f'name: "{name}" op: "{op}"', *(f'input: "{each}"' for each in inputs)]
    lines += [f'attr {{ key: "{key}" value {{ {value} }} }}' for key, value in attrs.items()]
    return "node { " + " ".join(lines) + " }\n"


FLOAT = "type: DT_FLOAT"

SUM = node("x", "Placeholder", dtype=FLOAT) + scalar("two", 2) + node("sum", "AddV2", "x", "two", T=FLOAT)

BRANCH = (
    node("x", "Placeholder", dtype=FLOAT)
    + node("p", "Placeholder", dtype="type: DT_BOOL")
    + scalar("three", 3)
    + node("switch", "Switch", "x", "p", T=FLOAT)
    + node("negated", "Neg", "switch", T=FLOAT)
    + node("tripled", "Mul", "switch:1", "three", T=FLOAT)
    + node("merge", "Merge", "negated", "tripled", T=FLOAT, N="i: 2")
)

LOOP = (
    node("x", "Placeholder", dtype=FLOAT)
    + scalar("limit", 100)
    + node("enter", "Enter", "x", T=FLOAT, frame_name='s: "loop"')
    + node("bound", "Enter", "limit", T=FLOAT, frame_name='s: "loop"', is_constant="b: true")
    + node("merge", "Merge", "enter", "next", T=FLOAT, N="i: 2")
    + node("less", "Less", "merge", "bound", T=FLOAT)
    + node("cond", "LoopCond", "less")
    + node("switch", "Switch", "merge", "cond", T=FLOAT)
    + node("double", "AddV2", "switch:1", "switch:1", T=FLOAT)
    + node("next", "NextIteration", "double", T=FLOAT)
    + node("exit", "Exit", "switch", T=FLOAT)
)

COUNTER = (
    node("v", "VariableV2", shape="shape {}", dtype=FLOAT)
    + scalar("zero", 0)
    + scalar("one", 1)
    + node("init", "Assign", "v", "zero", T=FLOAT)
    + node("count", "AssignAdd", "v", "one", T=FLOAT)
)

QUEUE = (
    node("q", "FIFOQueueV2", component_types="list { type: DT_FLOAT }", capacity="i: 1")
    + node("x", "Placeholder", dtype=FLOAT)
    + node("put", "QueueEnqueueV2", "q", "x", Tcomponents="list { type: DT_FLOAT }")
    + node("take", "QueueDequeueV2", "q", component_types="list { type: DT_FLOAT }")
)


async def test_a_step_adds() -> None:
    async with fe.Session(fe.Graph.from_graph_def(SUM)) as session:
        result = await session.run("sum:0", {"x:0": 3.0})
    assert result == np.float32(5.0)
    assert result.dtype == np.float32


@pytest.mark.parametrize(("taken", "expected"), [(True, 6.0), (False, -2.0)])
async def test_a_conditional_takes_one_branch(taken: bool, expected: float) -> None:
    async with fe.Session(fe.Graph.from_graph_def(BRANCH)) as session:
        assert await session.run(["merge:0", "merge:1"], {"x:0": 2.0, "p:0": taken}) == [expected, int(taken)]


async def test_a_loop_runs_until_its_condition_fails() -> None:
    async with fe.Session(fe.Graph.from_graph_def(LOOP)) as session:
        assert await session.run("exit:0", {"x:0": 3.0}) == 192.0
        assert await session.run("exit:0", {"x:0": 200.0}) == 200.0


async def test_a_variable_outlives_its_step() -> None:
    async with fe.Session(fe.Graph.from_graph_def(COUNTER)) as session:
        with pytest.raises(fe.errors.FailedPreconditionError, match="v"):
            await session.run("count:0")
        assert await session.run("init") is None
        assert [float(await session.run("count:0")) for _ in range(3)] == [1.0, 2.0, 3.0]


async def test_a_dequeue_waits_for_an_enqueue_of_another_step() -> None:
    async with fe.Session(fe.Graph.from_graph_def(QUEUE)) as session, trio.open_nursery() as nursery:
        taken: list[float] = []

        async def take() -> None:
            taken.append(float(await session.run("take:0")))

        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        assert taken == []
        await session.run("put", {"x:0": 7.0})
        with trio.fail_after(120):
            while not taken:
                await trio.lowlevel.checkpoint()
        assert taken == [7.0]


def test_a_script_without_trio_uses_the_blocking_session() -> None:
    with fe.blocking.Session(fe.Graph.from_graph_def(SUM)) as session:
        assert session.run("sum:0", {"x:0": 1.0}) == 3.0


async def test_an_error_names_the_node_and_the_values() -> None:
    async with fe.Session(fe.Graph.from_graph_def(SUM)) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="x"):
            await session.run("sum:0")
        with pytest.raises(fe.errors.OpError, match="nothing"):
            await session.run("nothing:0")
