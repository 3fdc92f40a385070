"""Limits of functions in a pipeline, which are the session's: its memory, its time, its containers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core import dtypes

_NUMBERS: dict[str, Any] = {"output_types": [dtypes.int64], "output_shapes": [[]]}


def _mapped(graph: fe.Graph, function: Any, count: int = 10) -> Any:
    """The next element of numbers that a function maps; `begin` begins anew."""
    ops = graph.ops
    body = fe.function(graph, [("int64", [])], name="body")(function)
    numbers = ops.RangeDataset(*(np.int64(each) for each in (0, count, 1)), **_NUMBERS)
    mapped = ops.MapDataset(numbers, body.captures, f=body.attr, **_NUMBERS)
    iterator = ops.IteratorV2(shared_name="it", container="", **_NUMBERS)
    ops.MakeIterator(mapped, iterator, name="begin")
    (following,) = ops.IteratorGetNext(iterator, **_NUMBERS)
    return following


def _filled(number: Any) -> Any:
    """A sum over ten million times the number of bytes."""
    ops = number.graph.ops
    size = number.graph.ops.Cast(number, DstT="int32") * 10_000_000
    parts = ops.Fill(ops.Reshape(size, [1]), np.uint8(1))
    # Looked at in another order, so that nothing makes of it a sum alone.
    return ops.Cast(ops.Size(ops.ReverseV2(ops.Unique(parts)[1], [0])), DstT="int64")


@pytest.mark.parametrize("bound", ["memory_limit_bytes", "session_memory_bytes"])
async def test_a_function_has_the_memory_of_the_session(bound: str) -> None:
    graph = fe.Graph()
    following = _mapped(graph, _filled)
    limits: Any = {bound: 30_000_000}
    async with fe.Session(graph, config=fe.Config(**limits)) as session:
        await session.run([], targets=["begin"])
        assert await session.run(following) == 0
        with pytest.raises(fe.errors.ResourceExhaustedError, match=bound):
            await session.run(following)
        # The next is as large again; the iterator stands behind what failed, and nothing is left of it.
        with pytest.raises(fe.errors.ResourceExhaustedError, match=bound):
            await session.run(following)
        await session.run([], targets=["begin"])
        assert await session.run(following) == 0


async def test_a_function_that_waits_does_not_keep_a_step_beyond_its_time() -> None:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["int64"], shapes=[[]], shared_name="queue")
    graph.ops.QueueEnqueueV2(queue, [graph.placeholder("int64", [], name="given")], name="give")

    def taken(number: Any) -> Any:
        (value,) = number.graph.ops.QueueDequeueV2(queue, component_types=["int64"])
        return value + number

    following = _mapped(graph, taken)
    async with fe.Session(graph) as session:
        await session.run([], targets=["begin"])
        for expected in (100, 201):
            with pytest.raises(fe.errors.DeadlineExceededError):
                await session.run(following, options=fe.RunOptions(timeout_seconds=0.01))
            await session.run([], {"given:0": expected // 100 * 100}, targets=["give"])
            # What was asked for is the next one's.
            assert await session.run(following) == expected


async def test_a_call_has_arrays_of_its_own_and_the_variables_of_the_session() -> None:
    graph = fe.Graph()
    total = graph.variable(np.int64(0), name="total")

    def counted(number: Any) -> Any:
        ops = number.graph.ops
        array, flow = ops.TensorArrayV3(1, dtype="int64", tensor_array_name="same")
        flow = ops.TensorArrayWriteV3(array, 0, number, flow)  # of which the second would fail
        read = ops.TensorArrayReadV3(array, 0, flow, dtype="int64")
        with number.graph.control_dependencies([ops.AssignAddVariableOp(total.handle, read)]):
            return ops.ReadVariableOp(total.handle, dtype="int64")

    following = _mapped(graph, counted)
    async with fe.Session(graph) as session:
        await session.run([], targets=[total.initializer, "begin"])
        assert [int(await session.run(following)) for _ in range(5)] == [0, 1, 3, 6, 10]
        assert await session.run(total.value()) == 10


async def test_a_function_that_works_ends_with_the_session() -> None:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["int64"], shared_name="queue")

    def taken(number: Any) -> Any:
        (value,) = number.graph.ops.QueueDequeueV2(queue, component_types=["int64"])
        return value + number

    following = _mapped(graph, taken)
    session = fe.Session(graph)
    await session.run([], targets=["begin"])
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(fe.errors.OpError):
                await session.run(following)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert session.resources.services.count
        await session.close()
    assert session.resources.services.count == 0
