"""Ten thousand operations of each waiting resource, with cancellations: nothing lost, doubled or stuck.

The cancellations come from a seed, so that a failure can be repeated.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core import dtypes
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.resources.accumulator import Accumulator
from flowengine.resources.barrier import Barrier
from flowengine.resources.batching.steps import Batcher, Unbatcher
from flowengine.resources.mutex import Mutex
from flowengine.resources.services import Services
from flowengine.resources.staging import StagingArea, StagingMap

_OPERATIONS = 10_000


async def _or_cancelled(chance: random.Random, call: Callable[[], Awaitable[Any]]) -> Any:
    """The result of a call, or None where it was cancelled first: sometimes at once, sometimes later."""
    draw = chance.random()
    if draw > 0.1:
        return await call()
    with trio.move_on_after(0 if draw < 0.05 else 0.01):
        return await call()
    return None


@pytest.mark.parametrize("seed", range(2))
async def test_staging_area(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    chance = random.Random(seed)
    area = StagingArea("s", capacity=5)
    entered: Counter[int] = Counter()
    out: Counter[int] = Counter()
    operations = 0

    async def produce(first: int) -> None:
        nonlocal operations
        for value in range(first, first + _OPERATIONS // 4):
            operations += 1
            done = await _or_cancelled(chance, partial(_flagged, area.put, (np.int64(value),)))
            entered.update([value] if done else [])

    async def consume() -> None:
        nonlocal operations
        while True:
            operations += 1
            found = await _or_cancelled(chance, area.get)
            out.update([int(found[0])] if found is not None else [])

    async with trio.open_nursery() as consumers:
        for _ in range(3):
            consumers.start_soon(consume)
        async with trio.open_nursery() as producers:
            for which in range(3):
                producers.start_soon(produce, which * _OPERATIONS)
        await trio.testing.wait_all_tasks_blocked()
        consumers.cancel_scope.cancel()
    while len(area):
        out.update([int(area.get_nowait()[0])])
    assert out == entered
    assert operations >= _OPERATIONS
    assert autojump_clock.autojump_threshold == 0


async def _flagged(call: Callable[..., Awaitable[None]], *arguments: Any) -> bool:
    """True once the call has ended, to be told from a cancelled one."""
    await call(*arguments)
    return True


@pytest.mark.parametrize("ordered", [False, True])
async def test_staging_map(ordered: bool, autojump_clock: trio.testing.MockClock) -> None:
    chance = random.Random(7)
    area = StagingMap("m", 2, ordered=ordered, capacity=5)
    got: list[tuple[int, tuple[Any, ...]]] = []
    keys = _OPERATIONS // 4

    async def put(index: int) -> None:
        for key in range(keys):
            value = (np.int64(10 * key + index),)
            while await _or_cancelled(chance, partial(_flagged, area.put, key, [index], value)) is None:
                pass

    async def take() -> None:
        while len(got) < keys:
            found = await _or_cancelled(chance, lambda: area.get(None, [0, 1]))
            if found is not None:
                got.append(found)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(put, 0)
        nursery.start_soon(put, 1)
        nursery.start_soon(take)
    assert sorted(key for key, _ in got) == list(range(keys))
    assert all(values == (10 * key, 10 * key + 1) for key, values in got)
    assert (len(area), area.incomplete_size, area.bytes_held) == (0, 0, 0)
    assert autojump_clock.autojump_threshold == 0


async def test_barrier(autojump_clock: trio.testing.MockClock) -> None:
    chance = random.Random(3)
    barrier = Barrier("b", (dtypes.int64, dtypes.int64), (SCALAR, SCALAR))
    total = _OPERATIONS // 2
    taken: list[bytes] = []

    async def insert(component: int) -> None:
        order = list(range(total))
        chance.shuffle(order)
        for number in order:
            key = np.empty(1, dtype=object)
            key[0] = b"%d" % number
            barrier.insert_many(component, key, np.array([number + component]))
            if chance.random() < 0.2:
                await trio.lowlevel.checkpoint()

    async def take() -> None:
        while len(taken) < total:
            count = min(chance.randrange(1, 5), total - len(taken))
            found = await _or_cancelled(chance, partial(barrier.take_many, count))
            if found is not None:
                _, keys, first, second = found
                assert (second - first == 1).all()
                assert [b"%d" % number for number in first] == keys.tolist()
                taken.extend(keys.tolist())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(insert, 0)
        nursery.start_soon(insert, 1)
        nursery.start_soon(take)
    assert Counter(taken) == Counter(b"%d" % number for number in range(total))
    assert (barrier.ready_size, barrier.incomplete_size) == (0, 0)
    assert autojump_clock.autojump_threshold == 0


async def test_accumulator(autojump_clock: trio.testing.MockClock) -> None:
    chance = random.Random(5)
    accumulator = Accumulator("a", dtypes.int64, TensorShape([]), average=False)
    total = 0
    applied = 0

    async def apply() -> None:
        nonlocal applied
        for value in range(_OPERATIONS // 4):
            accumulator.apply(accumulator.global_step, np.int64(value))
            applied += value
            if chance.random() < 0.5:
                await trio.lowlevel.checkpoint()

    async def take(required: int) -> None:
        nonlocal total
        while True:
            found = await _or_cancelled(chance, lambda: accumulator.take(required))
            total += int(found or 0)

    async with trio.open_nursery() as takers:
        for required in (1, 3, 5):
            takers.start_soon(take, required)
        async with trio.open_nursery() as appliers:
            for _ in range(4):
                appliers.start_soon(apply)
        await trio.testing.wait_all_tasks_blocked()
        takers.cancel_scope.cancel()
    while accumulator.count:
        total += int(accumulator.take_nowait(1))
    assert total == applied
    assert autojump_clock.autojump_threshold == 0


async def test_mutex(autojump_clock: trio.testing.MockClock) -> None:
    chance = random.Random(9)
    mutex = Mutex("m")
    inside = entered = 0

    async def work() -> None:
        nonlocal inside, entered
        for _ in range(_OPERATIONS // 10):
            lock = await _or_cancelled(chance, mutex.lock)
            if lock is None:
                continue
            inside, entered = inside + 1, entered + 1
            assert inside == 1
            if chance.random() < 0.3:
                await trio.lowlevel.checkpoint()
            inside -= 1
            lock.release()

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(work)
    assert not mutex.is_locked
    assert entered > _OPERATIONS / 2
    assert autojump_clock.autojump_threshold == 0


async def test_batching(autojump_clock: trio.testing.MockClock) -> None:
    """Every request gets its own rows back, whoever else is cancelled before their batch is closed."""
    chance = random.Random(11)
    batcher = Batcher("b", Services(), max_batch_size=8, timeout_seconds=0.02)
    unbatcher = Unbatcher()
    served = cancelled = 0

    async def client(number: int) -> None:
        nonlocal served, cancelled
        for turn in range(_OPERATIONS // 50):
            rows = np.full((chance.randrange(1, 4), 1), 1000 * number + turn)
            batched = await _or_cancelled(chance, partial(batcher.submit, (rows,)))
            if batched is None:
                cancelled += 1
                continue
            (together,), whose, mine = batched
            if chance.random() < 0.3:
                await trio.lowlevel.checkpoint()
            result = await unbatcher.get(-together, whose, mine, None)
            assert result.tolist() == (-rows).tolist()
            served += 1

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(client, number)
    assert served + cancelled == _OPERATIONS
    assert served > _OPERATIONS / 2
    assert cancelled > 0
    assert autojump_clock.autojump_threshold == 0
