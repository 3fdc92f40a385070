"""Staging areas and maps: room, keys, and waits that leave nothing behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import CancelledError, InvalidArgumentError, ResourceExhaustedError
from flowengine.resources.staging import StagingArea, StagingMap
from tests.effort import examples


async def test_area_is_bounded_and_in_order() -> None:
    area = StagingArea("s", capacity=2)
    got: list[int] = []
    async with trio.open_nursery() as nursery:
        for value in range(4):
            nursery.start_soon(area.put, (np.int64(value),))
            await trio.testing.wait_all_tasks_blocked()
        assert len(area) == 2
        got += [int((await area.get())[0]) for _ in range(4)]
    assert got == [0, 1, 2, 3]
    assert area.bytes_held == 0


async def test_area_memory_limit() -> None:
    area = StagingArea("s", memory_limit=100)
    with pytest.raises(ResourceExhaustedError, match="combined size of '104' bytes"):
        await area.put((np.zeros(13),))
    await area.put((np.zeros(12),))
    assert area.put_nowait((np.zeros(1),)) is WOULD_WAIT
    area.clear()
    assert area.put_nowait((np.zeros(1),)) is None


async def test_peek_waits_for_its_position_and_takes_nothing() -> None:
    area = StagingArea("s")
    seen: list[int] = []

    async def peek(index: int) -> None:
        seen.append(int((await area.peek(index))[0]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(peek, 1)
        await trio.testing.wait_all_tasks_blocked()
        area.put_nowait((np.int64(5),))
        area.put_nowait((np.int64(6),))
    assert seen == [6]
    assert len(area) == 2
    with pytest.raises(InvalidArgumentError, match="negative"):
        await area.peek(-1)


async def test_cancelled_waits_leave_nothing() -> None:
    area = StagingArea("s", capacity=1)
    waits: list[Callable[[], Awaitable[object]]] = [area.get, lambda: area.peek(0)]
    for wait in waits:
        with trio.CancelScope() as scope:
            scope.cancel()
            await wait()
        assert scope.cancelled_caught
    area.put_nowait((np.int64(1),))
    with trio.CancelScope() as scope:
        scope.cancel()
        await area.put((np.int64(2),))
    assert [int(area.get_nowait()[0]), area.get_nowait()] == [1, WOULD_WAIT]


async def test_values_belong_to_the_area() -> None:
    area, by_key = StagingArea("s"), StagingMap("m", 2, ordered=False)
    given = np.zeros(2)
    area.put_nowait((given,))
    for index in range(2):
        by_key.put_nowait(5, [index], (given,))
    given[...] = 9
    assert (await area.get())[0].tolist() == [0, 0]
    _, values = await by_key.get(5, [0, 1])
    assert [value.tolist() for value in values] == [[0, 0], [0, 0]]


async def test_a_put_that_is_withdrawn_lets_those_behind_it_go(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """They may have room where it had none."""
    area = StagingArea("s", memory_limit=100)
    area.put_nowait((np.zeros(6),))
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            large = trio.CancelScope()

            async def put_large() -> None:
                with large:
                    await area.put((np.zeros(12),))

            nursery.start_soon(put_large)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(area.put, (np.ones(2),))
            await trio.testing.wait_all_tasks_blocked()
            assert len(area) == 1
            large.cancel()
    assert large.cancelled_caught
    assert [value.tolist() for (value,) in (await area.get(), await area.get())] == [[0] * 6, [1, 1]]


async def test_a_map_that_is_cleared_has_room_for_those_who_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    area = StagingMap("m", 1, ordered=True, capacity=1)
    area.put_nowait(1, [0], (np.int64(10),))
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(area.put, 2, [0], (np.int64(20),))
            await trio.testing.wait_all_tasks_blocked()
            assert len(area) == 1
            area.clear()
    assert area.get_nowait(None, [0]) == (2, (20,))


async def test_waiters_for_other_keys_do_not_block() -> None:
    area = StagingMap("m", 1, ordered=False)
    got: list[int] = []

    async def take(key: int) -> None:
        got.append((await area.get(key, [0]))[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, 1)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take, 2)
        await trio.testing.wait_all_tasks_blocked()
        await area.put(2, [0], (np.int64(0),))
        await trio.testing.wait_all_tasks_blocked()
        assert got == [2]
        await area.put(1, [0], (np.int64(0),))
    assert got == [2, 1]


def test_entries_become_visible_when_complete() -> None:
    area = StagingMap("m", 3, ordered=True)
    area.put_nowait(7, [2, 0], (np.int64(2), np.int64(0)))
    assert (len(area), area.incomplete_size) == (0, 1)
    assert area.get_nowait(7, [0]) is WOULD_WAIT
    with pytest.raises(InvalidArgumentError, match="index '0' for key '7' was already initialized"):
        area.put_nowait(7, [0], (np.int64(0),))
    area.put_nowait(7, [1], (np.int64(1),))
    assert (len(area), area.incomplete_size) == (1, 0)
    assert area.peek_nowait(7, [1, 2]) == (7, (1, 2))
    assert area.get_nowait(7, [1]) == (7, (1,))
    with pytest.raises(InvalidArgumentError, match="already been removed"):
        area.get_nowait(7, [1])
    with pytest.raises(InvalidArgumentError, match="in Staging Map 'm' already"):
        area.put_nowait(7, [1], (np.int64(1),))
    assert area.get_nowait(None, [0, 2]) == (7, (0, 2))
    assert len(area) == 0
    with pytest.raises(InvalidArgumentError, match="lies outside"):
        area.put_nowait(1, [3], (np.int64(1),))


async def test_destroy_wakes_everybody() -> None:
    area = StagingArea("s")

    async def wait() -> None:
        with pytest.raises(CancelledError, match="was removed"):
            await area.get()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        area.destroy()


class MapMachine(RuleBasedStateMachine):
    """Puts and takes of whole entries against a dictionary."""

    @initialize(ordered=st.booleans())
    def make(self, ordered: bool) -> None:
        self.ordered = ordered
        self.area = StagingMap("m", 1, ordered=ordered, capacity=3)
        self.model: dict[int, int] = {}

    @rule(key=st.integers(0, 5), value=st.integers(0, 99))
    def put(self, key: int, value: int) -> None:
        if key in self.model:
            with pytest.raises(InvalidArgumentError):
                self.area.put_nowait(key, [0], (np.int64(value),))
        elif len(self.model) >= 3:
            assert self.area.put_nowait(key, [0], (np.int64(value),)) is WOULD_WAIT
        else:
            assert self.area.put_nowait(key, [0], (np.int64(value),)) is None
            self.model[key] = value

    @rule(key=st.one_of(st.none(), st.integers(0, 5)))
    def get(self, key: int | None) -> None:
        found: Any = self.area.get_nowait(key, [0])
        if key is None and self.model:
            key = min(self.model) if self.ordered else next(iter(self.model))
        if key is None or key not in self.model:
            assert found is WOULD_WAIT
        else:
            assert found == (key, (self.model.pop(key),))

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "area"):
            assert len(self.area) == len(self.model)
            assert self.area.bytes_held == 8 * len(self.model)


TestMap = MapMachine.TestCase
TestMap.settings = settings(max_examples=examples(200), stateful_step_count=50)
