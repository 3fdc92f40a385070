"""Lines and crowds of attempts: who goes on, who is woken, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import CancelledError, InvalidArgumentError
from flowengine.resources.waiting import Attempt, AttemptCrowd, AttemptLine, Condition, wait_finished


class _Portions(Attempt):
    """Takes one of the units that there are at each look, until it has as many as it wants."""

    def __init__(self, units: list[int], wanted: int) -> None:
        super().__init__()
        self.units = units
        self.wanted = wanted
        self.held = 0
        self.woken = 0

        def wake() -> None:
            assert self.finished
            self.woken += 1

        self.wake = wake

    def advance(self) -> bool:
        moved = False
        while self.held < self.wanted and self.units:
            self.units.pop()
            self.held += 1
            moved = True
        return self.finish(self.held) if self.held == self.wanted else moved

    def undo(self) -> None:
        self.units.extend([1] * self.held)
        self.held = 0


@given(wanted=st.lists(st.integers(1, 4), max_size=6), given=st.lists(st.integers(0, 5), max_size=6))
def test_a_line_serves_in_order_and_says_whether_it_moved(wanted: list[int], given: list[int]) -> None:
    units: list[int] = []
    line = AttemptLine()
    attempts = [_Portions(units, count) for count in wanted]
    for attempt in attempts:
        line.join(attempt)
    come = 0
    for more in given:
        units.extend([1] * more)
        before = sum(attempt.held for attempt in attempts)
        moved = line.advance()
        come += more
        left = min(come, sum(wanted))
        for attempt in attempts:
            assert attempt.held == min(attempt.wanted, left), "nobody overtakes"
            left -= attempt.held
        assert moved == (sum(attempt.held for attempt in attempts) > before)
        assert [attempt.woken for attempt in attempts] == [int(each.finished) for each in attempts]
        assert list(line.attempts) == [attempt for attempt in attempts if not attempt.finished]


@given(
    keys=st.lists(st.integers(0, 3), max_size=8),
    come=st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=4),
)
def test_a_crowd_serves_whoever_can_go_on(keys: list[int], come: list[list[int]]) -> None:
    there: list[int] = []
    crowd = AttemptCrowd()
    woken: list[int] = []

    def taker(key: int) -> Callable[[], Any]:
        def take() -> Any:
            if key not in there:
                return WOULD_WAIT
            there.remove(key)
            return key

        return take

    attempts = [Condition(taker(key)) for key in keys]
    for number, attempt in enumerate(attempts):
        attempt.wake = lambda number=number: woken.append(number)
        crowd.join(attempt)
    waiting = list(range(len(keys)))
    told: list[int] = []
    for more in come:
        there.extend(more)
        stock, served = sorted(there), []
        for number in waiting:
            if keys[number] in stock:
                stock.remove(keys[number])
                served.append(number)
        waiting = [number for number in waiting if number not in served]
        told += served
        assert crowd.advance() == bool(served)
        assert woken == told
        assert sorted(there) == stock
        assert len(crowd) == len(waiting)
        assert [attempt.finished for attempt in attempts] == [n not in waiting for n in range(len(keys))]


@pytest.mark.parametrize("kind", [AttemptLine, AttemptCrowd])
async def test_all_who_wait_are_woken_with_an_error_of_their_own(kind: Callable[[], Any]) -> None:
    group = kind()
    told: list[str] = []

    async def wait() -> None:
        attempt = Condition(lambda: WOULD_WAIT)
        group.join(attempt)
        with pytest.raises(CancelledError) as caught:
            await wait_finished(attempt, group.leave)
        told.append(str(caught.value))

    numbers = iter(range(3))
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        group.fail_all(lambda _: CancelledError(f"number {next(numbers)}"))
        assert len(group) == 0
        await trio.testing.wait_all_tasks_blocked()
        assert len(told) == 3, "all of them were woken"
        nursery.cancel_scope.cancel()
    assert len(set(told)) == 3


@pytest.mark.parametrize("kind", [AttemptLine, AttemptCrowd])
async def test_who_is_cancelled_gives_back_what_it_holds(kind: Callable[[], Any]) -> None:
    units = [1, 1]
    group = kind()
    attempt = _Portions(units, 3)
    group.join(attempt)
    assert group.advance()
    assert not units
    with trio.CancelScope() as scope:
        scope.cancel()
        await wait_finished(attempt, group.leave)
    assert scope.cancelled_caught
    assert units == [1, 1]
    assert len(group) == 0
    assert attempt.wake is None


async def test_an_error_of_a_call_ends_its_attempt_and_is_told_once() -> None:
    def call() -> Any:
        raise InvalidArgumentError("no")

    line = AttemptLine()
    attempt = Condition(call)
    line.join(attempt)
    assert line.advance()
    assert not line
    with pytest.raises(InvalidArgumentError, match="no"):
        await wait_finished(attempt, line.leave)
    assert attempt.error is None, "its frames know the attempt"
