"""Mutexes hand over in order; batchers bring concurrent rows together and give each its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from flowengine.resources.batching.steps import Batcher, Regatherer, Unbatcher
from flowengine.resources.container import StepContainer
from flowengine.resources.mutex import Mutex
from flowengine.resources.services import Services


async def test_mutex_excludes_and_hands_over_in_order() -> None:
    mutex = Mutex("m")
    order: list[int] = []
    inside = 0

    async def work(which: int) -> None:
        nonlocal inside
        lock = await mutex.lock()
        inside += 1
        assert inside == 1
        order.append(which)
        await trio.lowlevel.checkpoint()
        inside -= 1
        lock.release()

    async with trio.open_nursery() as nursery:
        first = await mutex.lock()
        for which in range(5):
            nursery.start_soon(work, which)
            await trio.testing.wait_all_tasks_blocked()
        first.release()
    assert order == list(range(5))
    assert not mutex.is_locked
    with pytest.raises(InvalidArgumentError, match="released already"):
        first.release()


async def test_a_lock_ends_with_its_step_and_a_cancelled_wait_holds_none() -> None:
    mutex = Mutex("m")
    step = StepContainer()
    step.create("lock", await mutex.lock())
    with trio.CancelScope() as scope:
        scope.cancel()
        await mutex.lock()
    assert scope.cancelled_caught
    step.clear()
    assert not mutex.is_locked
    assert (await mutex.lock()) is not None


def _rows(*values: int) -> tuple[Any, ...]:
    return (np.array(values, dtype=np.int64),)


async def _serve(
    batcher: Batcher, unbatcher: Unbatcher, values: tuple[int, ...], sizes: list[int]
) -> list[int]:
    batched = await batcher.submit(_rows(*values))
    (tensor,) = batched.tensors
    if len(tensor):
        sizes.append(len(tensor))
    result = await unbatcher.get(tensor * 10, batched.batch_index, batched.id, 60)
    numbers: list[int] = result.tolist()
    return numbers


async def test_concurrent_steps_share_a_batch(autojump_clock: trio.testing.MockClock) -> None:
    batcher = Batcher("b", Services(), max_batch_size=10, timeout_seconds=1)
    unbatcher = Unbatcher()
    sizes: list[int] = []
    results: dict[int, list[int]] = {}

    async def step(which: int) -> None:
        results[which] = await _serve(batcher, unbatcher, (which, which + 100), sizes)

    async with trio.open_nursery() as nursery:
        for which in range(12):
            nursery.start_soon(step, which)
    assert sorted(sizes) == [4, 10, 10]
    assert results == {which: [10 * which, 10 * which + 1000] for which in range(12)}
    assert trio.current_time() == pytest.approx(autojump_clock.current_time())


async def test_a_lone_step_waits_no_longer_than_the_timeout(autojump_clock: trio.testing.MockClock) -> None:
    batcher = Batcher("b", Services(), max_batch_size=10, timeout_seconds=0.5)
    before = trio.current_time()
    batched = await batcher.submit(_rows(1))
    assert trio.current_time() - before == pytest.approx(0.5)
    assert batched.batch_index.tolist() == [[batched.id, 0, 1]]
    assert autojump_clock.autojump_threshold == 0


async def test_cancelled_rows_leave_the_batch(autojump_clock: trio.testing.MockClock) -> None:
    batcher = Batcher("b", Services(), max_batch_size=10, timeout_seconds=1)
    unbatcher = Unbatcher()
    results: list[list[int]] = []

    async def step() -> None:
        results.append(await _serve(batcher, unbatcher, (7,), []))

    async with trio.open_nursery() as nursery:
        with trio.move_on_after(0.1):
            await batcher.submit(_rows(1, 2))
        nursery.start_soon(step)
        with trio.move_on_after(0.1):
            await batcher.submit(_rows(3))
    assert results == [[70]]
    assert autojump_clock.autojump_threshold == 0


async def test_allowed_sizes_are_filled_with_copies(autojump_clock: trio.testing.MockClock) -> None:
    allowed = [4, 8]
    batcher = Batcher("b", Services(), max_batch_size=8, timeout_seconds=0, allowed_batch_sizes=allowed)
    allowed.clear()  # the list is the caller's
    batched = await batcher.submit(_rows(1, 2))
    assert batched.tensors[0].tolist() == [1, 2, 1, 1]
    assert batched.batch_index[0, 1:].tolist() == [0, 2]
    with pytest.raises(InvalidArgumentError, match="must rise and end"):
        Batcher("b", Services(), max_batch_size=8, timeout_seconds=0, allowed_batch_sizes=(4, 6))
    assert autojump_clock.autojump_threshold == 0


async def test_who_waits_for_a_batch_is_told_that_it_is_removed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """All of them at once, though the batch would have been sealed much later."""
    batcher = Batcher("b", Services(), max_batch_size=10, timeout_seconds=60)
    told: list[str] = []

    async def step(which: int) -> None:
        with pytest.raises(CancelledError, match="Batch 'b' was removed") as caught:
            await batcher.submit(_rows(which))
        told.append(str(caught.value))

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            for which in range(3):
                nursery.start_soon(step, which)
            await trio.testing.wait_all_tasks_blocked()
            batcher.destroy()
    assert len(told) == 3
    assert autojump_clock.autojump_threshold == 0


async def test_batcher_refuses(autojump_clock: trio.testing.MockClock) -> None:
    batcher = Batcher("b", Services(), max_batch_size=2, timeout_seconds=1)
    with pytest.raises(InvalidArgumentError, match="at least one dimension"):
        await batcher.submit((np.asarray(1),))
    with pytest.raises(InvalidArgumentError, match="equal 0th-dimension size"):
        await batcher.submit((np.zeros(1), np.zeros(2)))
    with pytest.raises(InvalidArgumentError, match="Task size 3 is larger"):
        await batcher.submit(_rows(1, 2, 3))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(batcher.submit, _rows(1))
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        with pytest.raises(InvalidArgumentError, match="must agree but for their rows"):
            await batcher.submit((np.zeros((1, 2)),))
    assert autojump_clock.autojump_threshold == 0


async def test_rows_that_never_come(autojump_clock: trio.testing.MockClock) -> None:
    unbatcher = Unbatcher()
    nothing = np.empty((0, 3), np.int64)
    with pytest.raises(DeadlineExceededError, match="did not arrive"):
        await unbatcher.get(np.zeros(0), nothing, 5, 2.0)
    with pytest.raises(InvalidArgumentError, match="Wrong shape for index tensor"):
        await unbatcher.get(np.zeros(0), np.zeros(3), 5, 2.0)
    with pytest.raises(InvalidArgumentError, match="names rows 0 to 9"):
        await unbatcher.get(np.zeros(2), np.array([[1, 0, 9]]), 1, 2.0)
    assert autojump_clock.autojump_threshold == 0


async def test_gradients_come_together() -> None:
    regatherer = Regatherer()
    results: dict[int, list[float]] = {}
    index = np.array([[1, 0, 1], [2, 1, 3]])

    async def step(own: int, original: Any, where: Any, gradient: list[float]) -> None:
        results[own] = (await regatherer.get(original, where, np.array(gradient), own)).tolist()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(step, 2, np.zeros(3), index, [2.0, 3.0])
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(step, 1, np.zeros(0), index[:0], [1.0])
    assert results == {1: [], 2: [1.0, 2.0, 3.0]}


async def test_a_batch_without_an_index_has_no_parts() -> None:
    nothing = np.empty((0, 3), np.int64)
    with pytest.raises(InvalidArgumentError, match="batch_index is empty"):
        await Regatherer().get(np.zeros(3), nothing, np.zeros(3), 1)
    assert (await Regatherer().get(np.zeros(0), nothing, np.zeros(2), 1)).shape == (0,)
