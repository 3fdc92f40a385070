"""Nodes that call functions of the program, plain ones and coroutine functions."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import trio
import trio.lowlevel

import flowengine as fe


async def _nothing() -> None:
    pass


async def test_a_failing_function_fails_the_step() -> None:
    def fails() -> None:
        raise KeyError("lost")

    async def fails_late() -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("lost")

    for function in (fails, fails_late):
        graph = fe.Graph()
        operation = graph.call(function, [], None)
        async with fe.Session(graph) as session:
            with pytest.raises(
                fe.errors.UnknownError, match="the function raised KeyError: 'lost'"
            ) as caught:
                await session.run(operation)
        assert caught.value.creation_site is not None


async def test_a_function_is_called_with_arrays() -> None:
    graph = fe.Graph()
    x, s = graph.placeholder("float32", [2]), graph.constant("ab")
    seen: list[Any] = []

    def split(values: Any, text: Any) -> Any:
        seen.append((values.flags.writeable, text))
        return {"twice": values * 2, "parts": [text.upper(), len(text)]}

    flat = graph.call(
        lambda v, t: [*(r := split(v, t))["parts"], r["twice"]],
        [x, s],
        ["string", "int64", "float32"],
        shapes=[[], [], [2]],
    )
    assert flat[2].shape.as_list() == [2]
    total = fe.reduce_sum(flat[2] + fe.cast(flat[1], "float32"))
    async with fe.Session(graph) as session:
        text, count, twice, found = await session.run([*flat, total], {x: [1, 2]})
        assert (text, count, found) == (b"AB", 2, 10)
        np.testing.assert_array_equal(twice, [2, 4])
    assert seen[0] == (False, b"ab")


async def test_a_graph_waits_for_the_world_beside_its_other_nodes() -> None:
    graph = fe.Graph()
    sender, receiver = trio.open_memory_channel[float](0)

    async def told(x: Any) -> Any:
        return await receiver.receive() + x

    async def tells(x: Any) -> Any:
        await sender.send(float(x))
        return x

    one = graph.call(told, [1.0], "float32")
    two = graph.call(tells, [5.0], "float32")
    async with fe.Session(graph) as session:
        assert await session.run([one, two]) == [6.0, 5.0]


async def test_a_cancelled_step_cancels_the_function() -> None:
    graph = fe.Graph()
    ended: list[str] = []
    scope = trio.CancelScope()

    async def waits() -> None:
        try:
            scope.cancel()
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")

    operation = graph.call(waits, [], None)
    assert isinstance(operation, fe.Operation)
    async with fe.Session(graph) as session:
        with scope:
            await session.run(operation)
    assert scope.cancelled_caught
    assert ended == ["cancelled"]


async def test_functions_run_in_loops_and_branches_and_are_not_folded() -> None:
    graph = fe.Graph()
    calls: list[int] = []

    def count(i: Any) -> Any:
        calls.append(int(i))
        return np.int32(i + 1)

    (last,) = graph.while_loop(
        lambda i: i < 3, lambda i: (graph.call(count, [i], "int32", shapes=[[]]),), (0,)
    )
    none = graph.cond(last > 5, lambda: graph.call(count, [9], "int32"), lambda: 0)
    async with fe.Session(graph) as session:
        for _ in range(3):
            assert await session.run([last, none]) == [3, 0]
    assert calls == [0, 1, 2] * 3


@pytest.mark.parametrize(
    ("function", "dtypes", "text"),
    [
        (lambda: 1.5, "int32", "cannot become int32"),
        (lambda: (1, 2), ["int32"] * 3, "returned 2 values; the node has 3"),
        (lambda: 1, None, "the node has no outputs"),
        (lambda: _nothing(), None, "coroutine function"),
    ],
)
async def test_what_a_function_returns_is_checked(function: Any, dtypes: Any, text: str) -> None:
    graph = fe.Graph()
    found = graph.call(function, [], dtypes)
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=text):
            await session.run(found)


async def test_a_session_may_refuse_them() -> None:
    graph = fe.Graph()
    found = graph.call(lambda: 1, [], "int32")
    async with fe.Session(graph, config=fe.Config(python_calls=False)) as session:
        with pytest.raises(fe.errors.PermissionDeniedError, match="python_calls"):
            await session.run(found)


async def test_a_graph_that_was_written_leaves_them_behind() -> None:
    graph = fe.Graph()
    name = graph.call(lambda: 1, [], "int32").name
    data = graph.to_graph_def().SerializeToString()
    del graph
    gc.collect()
    async with fe.Session(fe.Graph.from_graph_def(data)) as session:
        with pytest.raises(fe.errors.FailedPreconditionError, match="not in this process"):
            await session.run(name)


def test_what_is_called_is_a_function() -> None:
    not_a_function: Any = 3
    with pytest.raises(TypeError, match="no function"):
        fe.Graph().call(not_a_function, [], None)


async def test_the_causes_of_an_error_end() -> None:
    """Of a coroutine function too, however it failed: each error has been caused by another one."""

    async def fails(x: Any) -> Any:
        await trio.lowlevel.checkpoint()
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    async def in_a_nursery(x: Any) -> Any:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ValueError("within")

    def ways(error: BaseException | None, above: tuple[int, ...] = ()) -> None:
        if error is not None:
            assert id(error) not in above, "an error is among its own causes"
            inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
            for each in (error.__cause__, error.__context__, *inner):
                ways(each, (*above, id(error)))

    for function in (fails, in_a_nursery):
        graph = fe.Graph()
        y = graph.call(function, [graph.placeholder("float32", [], name="x")], "float32") * 2.0
        async with fe.Session(graph) as session:
            for _ in range(4):
                with pytest.raises(fe.errors.UnknownError) as caught:
                    await session.run(y, {"x:0": 1.0})
                ways(caught.value)
