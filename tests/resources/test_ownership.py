"""Ownership: queues, barriers and tables own their contents, and a refused change leaves them as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.resources.barrier import Barrier
from flowengine.resources.queue import Queue
from flowengine.resources.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from flowengine.resources.table import Table

QUEUES = [FIFOQueue, PaddingFIFOQueue, RandomShuffleQueue, PriorityQueue]
_NEEDS_SHAPES = (PaddingFIFOQueue, "open")


@pytest.mark.parametrize("way", ["one", "many", "one waits for room", "many wait for room", "awaited"])
@pytest.mark.parametrize(
    ("kind", "shapes"),
    [(kind, shapes) for kind in QUEUES for shapes in ("given", "open") if (kind, shapes) != _NEEDS_SHAPES],
)
async def test_what_was_enqueued_may_be_written_over(kind: type[Queue], shapes: str, way: str) -> None:
    """Whichever way an element came in, and whether it waited for room or somebody waited for it."""
    queue = kind("q", (dtypes.float32,), (TensorShape([2]),) if shapes == "given" else None, capacity=3)
    priority: tuple[Any, ...] = (np.int64(1),) if kind is PriorityQueue else ()
    given = np.zeros((2, 2), np.float32)
    seen: list[Any] = []

    async def enqueue() -> None:
        if way.startswith("many"):
            rows = (np.ones(2, np.int64),) if kind is PriorityQueue else ()
            await queue.enqueue_many((*rows, given))
        else:
            await queue.enqueue((*priority, given[0]))

    async def dequeue(count: int) -> None:
        seen.extend([(await queue.dequeue())[-1] for _ in range(count)])

    if way.endswith("room"):
        for _ in range(3):
            queue.enqueue_nowait((*priority, np.zeros(2, np.float32)))
    async with trio.open_nursery() as nursery:
        if way == "awaited":
            nursery.start_soon(dequeue, 1)
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(enqueue)
        await trio.testing.wait_all_tasks_blocked()
        if way.endswith("room"):
            await dequeue(2)
            await trio.testing.wait_all_tasks_blocked()
        given[...] = 9
        await dequeue(queue.size)
    entered = (2 if way.startswith("many") else 1) + (3 if way.endswith("room") else 0)
    assert len(seen) == entered
    for value in seen:
        assert value.tolist() == [0, 0]


@pytest.mark.parametrize("kind", QUEUES)
def test_what_was_dequeued_may_be_written_over(kind: type[Queue]) -> None:
    """Elements of one enqueue of many share no memory that a reader can reach."""
    queue = kind("q", (dtypes.float32,), (TensorShape([2]),))
    rows = (np.arange(4),) if kind is PriorityQueue else ()
    queue.enqueue_many_nowait((*rows, np.zeros((4, 2), np.float32)))
    for _ in range(4):
        value = queue.dequeue_nowait()[-1]
        assert value.tolist() == [0, 0]
        if value.flags.writeable:
            value[...] = 9


async def test_the_last_component_of_a_closed_barrier_wakes_who_waits_for_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Two keys are waited for, the barrier is closed with one begun: its completion says there is but one."""
    barrier = Barrier("b", (dtypes.float32, dtypes.float32), (SCALAR, SCALAR))
    key = np.array([b"k"], object)
    barrier.insert_many(0, key, np.zeros(1, np.float32))
    ended: list[str] = []

    async def take(count: int, up_to: bool) -> None:
        try:
            indices, *_ = await barrier.take_many(count, up_to=up_to)
            ended.append(f"{len(indices)} taken")
        except OutOfRangeError:
            ended.append("none")

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, 2, False)
            await trio.testing.wait_all_tasks_blocked()
            barrier.close()
            await trio.testing.wait_all_tasks_blocked()
            assert ended == []
            barrier.insert_many(1, key, np.ones(1, np.float32))
    assert ended == ["none"]
    with trio.fail_after(120):
        await take(3, True)
    assert ended == ["none", "1 taken"]


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (np.array([1, 2]), np.zeros(3, np.float32)),
        (np.array([1, 2]), np.zeros((2, 2), np.float32)),
        (np.array([1, 2]), np.float32(0)),
    ],
)
@pytest.mark.parametrize("way", ["replace", "insert"])
def test_a_refused_change_leaves_a_table_as_it_was(way: str, keys: Any, values: Any) -> None:
    table = Table("t", dtypes.int64, dtypes.float32)
    table.insert(np.array([5, 6]), np.array([0.5, 0.25], np.float32))
    with pytest.raises(InvalidArgumentError, match="for value"):
        getattr(table, way)(keys, values)
    assert [column.tolist() for column in table.export()] == [[5, 6], [0.5, 0.25]]


def test_a_value_in_a_table_is_its_own() -> None:
    table = Table("t", dtypes.int64, dtypes.float32, value_shape=(2,))
    given = np.zeros((2, 2), np.float32)
    table.replace(np.array([1, 2]), given)
    given[...] = 9
    found = table.find(np.array([1]), np.zeros(2, np.float32))
    assert found.tolist() == [[0, 0]]
    found[...] = 7
    assert table.find(np.array([1]), np.zeros(2, np.float32)).tolist() == [[0, 0]]


def test_what_is_given_back_to_a_priority_queue_comes_first_again_in_its_order() -> None:
    queue = PriorityQueue("q", (dtypes.int32,), (SCALAR,))
    for place, priority in enumerate((1, 1, 2, 1, 2)):
        queue.enqueue_nowait((np.int64(priority), np.int32(place)))
    taken = [queue._take() for _ in range(4)]
    queue._give_back(taken)
    queue.enqueue_nowait((np.int64(1), np.int32(5)))
    assert [int(queue.dequeue_nowait()[1]) for _ in range(6)] == [0, 1, 3, 5, 2, 4]
