"""Removed resources that a step still holds: steps that wait get an error, and so do later ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import CancelledError
from flowengine.core.shapes import SCALAR
from flowengine.resources.accumulator import Accumulator, SparseAccumulator
from flowengine.resources.barrier import Barrier
from flowengine.resources.mutex import Mutex
from flowengine.resources.queue import Queue
from flowengine.resources.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from flowengine.resources.staging import StagingArea, StagingMap

Waiting = tuple[Any, Callable[[], Awaitable[Any]]]

_ONE: Final = np.int64(1)


def _queue(kind: Callable[..., Queue]) -> Queue:
    return kind("q", (dtypes.int64,), (SCALAR,), capacity=1)


def _taking(kind: Callable[..., Queue], how: str, *arguments: Any) -> Callable[[], Waiting]:
    def make() -> Waiting:
        queue = _queue(kind)
        return queue, lambda: getattr(queue, how)(*arguments)

    return make


def _putting(kind: Callable[..., Queue], *element: Any) -> Callable[[], Waiting]:
    def make() -> Waiting:
        queue = _queue(kind)
        assert queue.enqueue_nowait(element) is None
        return queue, lambda: queue.enqueue(element)

    return make


def _barrier(is_closed: bool) -> Callable[[], Waiting]:
    def make() -> Waiting:
        barrier = Barrier("b", (dtypes.int64, dtypes.int64), None)
        barrier.insert_many(0, np.array([b"key"], object), np.array([1]))
        if is_closed:
            barrier.close()
        return barrier, lambda: barrier.take_many(1)

    return make


def _full_area() -> Waiting:
    area = StagingArea("s", capacity=1)
    assert area.put_nowait((_ONE,)) is None
    return area, lambda: area.put((_ONE,))


def _full_map() -> Waiting:
    area = StagingMap("m", 1, ordered=False, capacity=1)
    assert area.put_nowait(0, [0], (_ONE,)) is None
    return area, lambda: area.put(1, [0], (_ONE,))


def _taken(made: Any, how: str, *arguments: Any) -> Waiting:
    return made, lambda: getattr(made, how)(*arguments)


def _held_mutex() -> Waiting:
    mutex = Mutex("x")
    mutex.lock_nowait()
    return mutex, mutex.lock


MADE: Final[dict[str, Callable[[], Waiting]]] = {
    "FIFOQueue": _taking(FIFOQueue, "dequeue"),
    "FIFOQueue, many": _taking(FIFOQueue, "dequeue_many", 2),
    "PaddingFIFOQueue": _taking(PaddingFIFOQueue, "dequeue"),
    "PriorityQueue": _taking(PriorityQueue, "dequeue"),
    "PriorityQueue, many": _taking(PriorityQueue, "dequeue_many", 1),
    "RandomShuffleQueue": _taking(RandomShuffleQueue, "dequeue"),
    "FIFOQueue, full": _putting(FIFOQueue, _ONE),
    "PriorityQueue, full": _putting(PriorityQueue, _ONE, _ONE),
    "Barrier": _barrier(is_closed=False),
    "Barrier, closed": _barrier(is_closed=True),
    "StagingArea": lambda: _taken(StagingArea("s"), "get"),
    "StagingArea, looking": lambda: _taken(StagingArea("s"), "peek", 0),
    "StagingArea, full": _full_area,
    "StagingMap": lambda: _taken(StagingMap("m", 1, ordered=True), "get", None, [0]),
    "StagingMap, by key": lambda: _taken(StagingMap("m", 1, ordered=True), "get", 1, [0]),
    "StagingMap, looking": lambda: _taken(StagingMap("m", 1, ordered=True), "peek", 1, [0]),
    "StagingMap, full": _full_map,
    "Accumulator": lambda: _taken(Accumulator("a", dtypes.int64, SCALAR), "take", 1),
    "SparseAccumulator": lambda: _taken(SparseAccumulator("a", dtypes.int64, SCALAR), "take", 1),
    "Mutex": _held_mutex,
}


@pytest.mark.parametrize("kind", MADE)
async def test_who_waits_and_who_comes_later_is_told(
    kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    made, wait = MADE[kind]()
    told: list[str] = []

    async def be_told() -> None:
        with pytest.raises(CancelledError) as caught:
            await wait()
        told.append(str(caught.value))

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(be_told)
            await trio.testing.wait_all_tasks_blocked()
            assert not told, "it waits"
            made.destroy()
        await be_told()
    assert len(told) == 2


async def test_nothing_is_put_into_what_was_removed() -> None:
    """It would never be taken."""
    area, held = StagingArea("s"), StagingMap("m", 1, ordered=False)
    barrier, queue = Barrier("b", (dtypes.int64, dtypes.int64), None), _queue(FIFOQueue)
    puts: list[Callable[[], Any]] = [
        lambda: area.put((_ONE,)),
        lambda: held.put(0, [0], (_ONE,)),
        lambda: queue.enqueue((_ONE,)),
    ]
    for made in (area, held, barrier, queue):
        made.destroy()
    for put in puts:
        with pytest.raises(CancelledError):
            await put()
    with pytest.raises(CancelledError):
        barrier.insert_many(0, np.array([b"key"], object), np.array([1]))
    assert [len(area), len(held), len(queue), barrier.incomplete_size] == [0] * 4


async def test_a_step_that_comes_to_a_queue_that_was_reset_is_not_told_of_the_end_of_input(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The step has the queue before the reset, and dequeues after it."""
    graph = fe.Graph()
    queues = {
        name: graph.ops.FIFOQueueV2(
            component_types=[dtypes.int64], container=name, shared_name=name, name=name
        )
        for name in ("first", "second")
    }
    (go,) = graph.ops.QueueDequeueV2(queues["first"], component_types=[dtypes.int64], name="go")
    handle = graph.ops.Identity(queues["second"])
    with graph.control_dependencies([handle, go]):
        graph.ops.QueueDequeueV2(handle, component_types=[dtypes.int64], name="taken")
    graph.ops.QueueEnqueueV2(queues["first"], [np.int64(1)], name="let")
    async with fe.Session(graph) as session:

        async def take() -> None:
            with pytest.raises(fe.errors.CancelledError, match="'second' was removed"):
                await session.run("taken:0")

        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(take)
                await trio.testing.wait_all_tasks_blocked()
                await session.reset(["second"])
                await session.run([], targets=["let"])
