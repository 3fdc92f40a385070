"""However an iterator ends, its tasks have ended before the call returns."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from flowengine.core.shapes import TensorShape
from flowengine.resources.data.dataset import Origin
from flowengine.resources.data.iterator import IteratorResource
from flowengine.resources.data.sources import TensorDataset
from tests.resources.data.test_recorded_pipelines import CASES, graph_of

End = Callable[[fe.Session], Awaitable[Any]]


async def _deleted(session: fe.Session) -> None:
    await session.run([], targets=["delete"])


async def _reset(session: fe.Session) -> None:
    await session.reset([""])


async def _closed(session: fe.Session) -> None:
    await session.close()


def with_deletion(case: dict[str, Any]) -> fe.Graph:
    """The graph of a recorded pipeline, and `delete`."""
    graph = graph_of(case)
    handle = next(each for each in graph.operations() if each.type == "IteratorV2").outputs[0]
    graph.ops.DeleteIterator(
        handle, graph.ops.EmptyTensorList(-1, -1, element_dtype="float32"), name="delete"
    )
    return graph


#: Pipelines in which tasks work ahead.
AHEAD = [
    case
    for case in CASES
    if any(
        word in case.values[0]["name"] for word in ("parallel", "prefetch", "interleave", "deep", "map_and")
    )
]


@pytest.mark.parametrize("end", [_deleted, _reset, _closed])
@pytest.mark.parametrize("case", AHEAD)
async def test_no_task_is_left(case: dict[str, Any], end: End) -> None:
    async with fe.Session(with_deletion(case)) as session:
        await session.run([], targets=[case["init"]])
        services = session.resources.services
        assert services.count == 0
        with contextlib.suppress(InvalidArgumentError):  # what is wrong with the first element
            await session.run(case["fetches"])
        assert services.count > 0
        await end(session)
        assert services.count == 0


def waiting_for_a_queue(graph: fe.Graph) -> fe.Tensor:
    """A dataset of what three calls at a time take from a queue that stays empty."""
    ops = graph.ops
    kinds: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}
    queue = ops.FIFOQueueV2(component_types=["int64"], shapes=[[]], shared_name="q")

    @fe.function(graph, ["int64", "resource"])
    def awaited(number: fe.Tensor, queue: fe.Tensor) -> fe.Tensor:
        found: fe.Tensor = number.graph.ops.QueueDequeueV2(queue, component_types=["int64"])[0]
        return found

    numbers = ops.RangeDataset(*map(np.int64, (0, 9, 1)), **kinds)
    return ops.ParallelMapDataset(numbers, [queue], f=awaited.attr, num_parallel_calls=3, **kinds)


async def under_way(session: fe.Session, following: fe.Tensor, told: list[str], end: End) -> None:
    """Have somebody wait for an element, and end its iterator."""
    services = session.resources.services

    async def ask() -> None:
        try:
            await session.run(following)
        except CancelledError as error:
            told.append(error.message)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        while not services.count:
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        await end(session)
        assert services.count == 0


@pytest.mark.parametrize("end", [_deleted, _reset])
async def test_who_waits_is_told_and_who_asks_then_finds_nothing(end: End) -> None:
    """Of an element that never comes."""
    graph = fe.Graph()
    ops = graph.ops
    kinds: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}
    mapped = waiting_for_a_queue(graph)
    iterator = ops.IteratorV2(shared_name="it", container="", **kinds)
    ops.MakeIterator(mapped, iterator, name="make")
    following = ops.IteratorGetNext(iterator, **kinds)[0]
    ops.DeleteIterator(iterator, mapped, name="delete")
    async with fe.Session(graph) as session:
        await session.run([], targets=["make"])
        told: list[str] = []
        await under_way(session, following, told, end)
        assert len(told) == 1
        assert not session.resources.held(IteratorResource)
        # What was deleted is gone; what went with its container is made anew, and has no dataset yet.
        with pytest.raises(NotFoundError if end is _deleted else FailedPreconditionError):
            await session.run(following)


async def test_the_tasks_of_an_iterator_for_several_devices_end_with_it() -> None:
    """While calls of its map wait for a queue that stays empty."""
    graph = fe.Graph()
    kinds: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}
    ops, mapped = graph.ops, waiting_for_a_queue(graph)
    devices = [b"/device:CPU:0"] * 2
    iterator = ops.MultiDeviceIterator(devices=devices, shared_name="it", container="", **kinds)
    begun = ops.MultiDeviceIteratorInit(mapped, iterator, np.int64(2), name="make")
    following = ops.MultiDeviceIteratorGetNextFromShard(iterator, np.int32(0), begun, **kinds)[0]
    ops.DeleteMultiDeviceIterator(iterator, [], mapped, name="delete")
    async with fe.Session(graph) as session:
        told: list[str] = []
        await under_way(session, following, told, _deleted)
        assert len(told) == 1


async def test_nothing_is_kept_of_a_run_that_is_over() -> None:
    """An iterator that begins anew holds neither the dataset before nor what its run had in memory."""

    def dataset(value: Any) -> TensorDataset:
        said = {"output_types": [dtypes.float32], "output_shapes": [TensorShape([3])]}
        return TensorDataset(Origin("TensorDataset", said, ((value,),)), (value,))

    async with fe.Session(fe.Graph()) as session:
        types, shapes = (dtypes.float32,), (TensorShape([3]),)
        iterator = IteratorResource(session.resources.services, types, shapes)
        given, kept = np.ones(3, np.float32), np.ones(3)
        await iterator.make(dataset(given))
        iterator.checked(await iterator.get(), types, shapes)
        iterator._begun().iteration.memory["kept"] = kept
        gone: list[Any] = [weakref.ref(given), weakref.ref(kept)]
        del given, kept
        await iterator.make(dataset(np.zeros(3, np.float32)))
        await trio.testing.wait_all_tasks_blocked()  # tasks that have ended leave their nursery
        assert [each() is None for each in gone] == [True, True]
        await iterator.end()


async def test_an_iterator_that_is_removed_while_it_is_begun_anew_begins_nothing() -> None:
    """It is removed while it waits for a task of the run before, which ends late."""
    said: dict[str, Any] = {"output_types": [dtypes.float32], "output_shapes": [TensorShape([])]}
    dataset = TensorDataset(Origin("TensorDataset", said, ((np.float32(1),),)), (np.float32(1),))
    late = trio.Event()

    async def end_late() -> None:
        with trio.CancelScope(shield=True):
            await late.wait()

    async def begin(iterator: IteratorResource) -> None:
        with pytest.raises(NotFoundError, match="was destroyed"):
            await iterator.make(dataset)

    async with fe.Session(fe.Graph()) as session, trio.open_nursery() as nursery:
        resources = session.resources
        iterator = IteratorResource(
            resources.services, said["output_types"], said["output_shapes"], name="it"
        )
        resources.put("", "it", IteratorResource, iterator)
        await iterator.make(dataset)
        iterator._begun().iteration.tasks.start(end_late, "late")
        nursery.start_soon(begin, iterator)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(resources.remove, iterator)
        await trio.testing.wait_all_tasks_blocked()
        late.set()
