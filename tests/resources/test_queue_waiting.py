"""The coroutines of queues: order, backpressure, and cancellation at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import CancelledError, OutOfRangeError
from flowengine.core.shapes import SCALAR
from flowengine.resources.queue import Queue
from flowengine.resources.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from tests.effort import examples


def _fifo(capacity: int = -1) -> FIFOQueue:
    return FIFOQueue("q", (dtypes.int64,), (SCALAR,), capacity=capacity)


def _numbers(*values: int) -> tuple[Any, ...]:
    return (np.array(values, dtype=np.int64),)


async def test_waiters_are_served_in_order_of_arrival() -> None:
    queue = _fifo()
    served: list[tuple[int, int]] = []

    async def consume(which: int) -> None:
        (value,) = await queue.dequeue()
        served.append((which, int(value)))

    async with trio.open_nursery() as nursery:
        for which in range(5):
            nursery.start_soon(consume, which)
            await trio.testing.wait_all_tasks_blocked()
        await queue.enqueue_many(_numbers(10, 11, 12, 13, 14))
    assert sorted(served) == [(i, 10 + i) for i in range(5)]


async def test_nobody_overtakes_an_enqueue_of_many() -> None:
    queue = _fifo(capacity=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.enqueue_many, _numbers(0, 1, 2, 3, 4))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(queue.enqueue, (np.int64(5),))
        await trio.testing.wait_all_tasks_blocked()
        assert queue.size == 2
        got = [int((await queue.dequeue())[0]) for _ in range(6)]
    assert got == [0, 1, 2, 3, 4, 5]


async def test_cancelled_dequeue_of_many_gives_back_in_order_at_the_front() -> None:
    queue = _fifo()
    queue.enqueue_many_nowait(_numbers(0, 1, 2))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.dequeue_many, 5)
            await trio.testing.wait_all_tasks_blocked()
            assert queue.size == 0
            await queue.enqueue((np.int64(3),))
            scope.cancel()
    assert scope.cancelled_caught
    assert queue.is_idle
    assert queue.dequeue_many_nowait(4)[0].tolist() == [0, 1, 2, 3]


async def test_what_a_cancelled_dequeue_gives_back_serves_the_next_in_line() -> None:
    queue = _fifo()
    got: list[int] = []

    async def one() -> None:
        got.append(int((await queue.dequeue())[0]))

    async with trio.open_nursery() as outer, trio.open_nursery() as first:
        first.start_soon(queue.dequeue_many, 3)
        await trio.testing.wait_all_tasks_blocked()
        outer.start_soon(one)
        await trio.testing.wait_all_tasks_blocked()
        queue.enqueue_nowait((np.int64(7),))
        first.cancel_scope.cancel()
    assert got == [7]


async def test_cancelled_enqueue_of_many_leaves_a_prefix_and_says_how_long() -> None:
    queue = _fifo(capacity=2)
    notes: list[str] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await queue.enqueue_many(_numbers(0, 1, 2, 3, 4))
        except trio.Cancelled as cancelled:
            notes += cancelled.__notes__
            raise
    assert notes == ["FIFOQueue 'q': 2 of 5 elements were enqueued before cancellation"]
    assert scope.cancelled_caught
    assert queue.dequeue_many_nowait(2)[0].tolist() == [0, 1]
    assert queue.size == 0
    assert queue.is_idle


async def test_close_with_cancellation_ends_pending_enqueues_with_their_progress() -> None:
    queue = _fifo(capacity=2)
    errors: list[CancelledError] = []

    async def produce() -> None:
        try:
            await queue.enqueue_many(_numbers(0, 1, 2, 3, 4))
        except CancelledError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        await trio.testing.wait_all_tasks_blocked()
        await queue.close(cancel_pending_enqueues=True)
    assert "2 of 5 elements were enqueued" in str(errors[0])


async def test_cancelled_close_leaves_the_queue_open() -> None:
    queue = _fifo(capacity=1)
    queue.enqueue_nowait((np.int64(0),))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.enqueue, (np.int64(1),))
        await trio.testing.wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await queue.close()
        assert scope.cancelled_caught
        assert not queue.is_closed
        await queue.dequeue()
    await queue.enqueue_many(_numbers())


async def test_close_ends_waiting_dequeues() -> None:
    queue = _fifo()
    ended: list[str] = []

    async def wait(up_to: bool) -> None:
        try:
            (values,) = await queue.dequeue_many(3, up_to=up_to)
            ended.append(f"got {values.tolist()}")
        except OutOfRangeError:
            ended.append("out of range")

    async with trio.open_nursery() as nursery:
        queue.enqueue_many_nowait(_numbers(1, 2))
        nursery.start_soon(wait, False)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait, True)
        await trio.testing.wait_all_tasks_blocked()
        await queue.close()
    assert sorted(ended) == ["got [1, 2]", "out of range"]


_KINDS: dict[str, Callable[[int], Queue]] = {
    "fifo": _fifo,
    "padding": lambda capacity: PaddingFIFOQueue("q", (dtypes.int64,), (SCALAR,), capacity=capacity),
    "shuffle": lambda capacity: RandomShuffleQueue(
        "q", (dtypes.int64,), (SCALAR,), capacity=capacity, seeds=(1, 1)
    ),
    "priority": lambda capacity: PriorityQueue("q", (dtypes.int64,), (SCALAR,), capacity=capacity),
}

_PRODUCER = st.lists(st.integers(0, 6), min_size=1, max_size=8)
_CONSUMER = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=10)


@settings(max_examples=examples(120))
@given(
    kind=st.sampled_from(sorted(_KINDS)),
    capacity=st.integers(1, 4),
    producers=st.lists(_PRODUCER, min_size=1, max_size=4),
    consumers=st.lists(_CONSUMER, min_size=1, max_size=4),
    cancellations=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 30)), max_size=4),
    close_after=st.one_of(st.none(), st.tuples(st.integers(0, 30), st.booleans())),
)
def test_drawn_programs_lose_and_double_nothing(
    kind: str,
    capacity: int,
    producers: list[list[int]],
    consumers: list[list[tuple[int, bool]]],
    cancellations: list[tuple[int, int]],
    close_after: tuple[int, bool] | None,
) -> None:
    """Producers, consumers, cancellations and a close in one run; all elements are accounted for."""
    queue: Queue = _KINDS[kind](capacity)
    entered: list[int] = []
    out: list[int] = []
    serial = iter(range(1_000_000))

    def batch(count: int) -> tuple[list[int], tuple[Any, ...]]:
        values = [next(serial) for _ in range(count)]
        columns = _numbers(*values)
        return values, ((np.zeros(count, np.int64), *columns) if kind == "priority" else columns)

    async def produce(counts: list[int], scope: trio.CancelScope) -> None:
        with scope:
            for count in counts:
                values, columns = batch(count)
                entered.extend(values)
                done = count
                try:
                    await queue.enqueue_many(columns)
                except trio.Cancelled as cancelled:
                    done = int(cancelled.__notes__[0].split(": ")[1].split()[0])
                    raise
                except CancelledError as error:
                    done = (
                        int(error.message.split(" of ")[0].split()[-1].strip("("))
                        if " of " in error.message
                        else 0
                    )
                    return
                finally:
                    for value in values[done:]:
                        entered.remove(value)

    async def consume(wants: list[tuple[int, bool]], scope: trio.CancelScope) -> None:
        with scope:
            for count, many in wants:
                try:
                    if many:
                        out.extend((await queue.dequeue_many(count))[-1].tolist())
                    else:
                        out.append(int((await queue.dequeue())[-1]))
                except OutOfRangeError:
                    return

    async def main() -> None:
        scopes: list[trio.CancelScope] = []
        with trio.move_on_after(100):
            async with trio.open_nursery() as nursery:
                for function, programs in ((produce, producers), (consume, consumers)):
                    for program in programs:
                        scopes.append(trio.CancelScope())
                        nursery.start_soon(function, program, scopes[-1])  # type: ignore[arg-type]
                for tick in range(31):
                    await trio.lowlevel.checkpoint()
                    for which, when in cancellations:
                        if when == tick and which < len(scopes):
                            scopes[which].cancel()
                    if close_after is not None and close_after[0] == tick:
                        nursery.start_soon(lambda: queue.close(cancel_pending_enqueues=close_after[1]))
                await trio.testing.wait_all_tasks_blocked()
                for scope in scopes:
                    scope.cancel()
        assert queue.is_idle

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    left = []
    while queue.size:
        queue._closed = True  # what is held back may go, too
        left.append(int(queue.dequeue_nowait()[-1]))
    assert Counter(out + left) == Counter(entered)
    if kind in ("fifo", "padding") and len(consumers) == 1:
        assert out + left == sorted(entered)


@pytest.mark.parametrize("kind", sorted(_KINDS))
async def test_ten_thousand_operations(kind: str) -> None:
    queue: Queue = _KINDS[kind](7)
    out: list[int] = []

    def element(value: int) -> tuple[Any, ...]:
        return (np.int64(0), np.int64(value)) if kind == "priority" else (np.int64(value),)

    async def produce(first: int) -> None:
        for value in range(first, first + 2500):
            await queue.enqueue(element(value))

    async def consume(count: int) -> None:
        out.extend([int((await queue.dequeue())[-1]) for _ in range(count)])

    async with trio.open_nursery() as nursery:
        for which in range(2):
            nursery.start_soon(produce, 2500 * which)
        nursery.start_soon(consume, 5000)
    assert sorted(out) == list(range(5000))
    assert queue.is_idle
    if kind in ("fifo", "padding", "priority"):
        for first in (0, 2500):
            mine = [value for value in out if first <= value < first + 2500]
            assert mine == sorted(mine), "one producer's elements keep their order"
