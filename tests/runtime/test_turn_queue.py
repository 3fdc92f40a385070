"""The line of those who wait for a turn, against a model: nobody lost or twice, in order, none for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flowengine.runtime.turn_queue import (
    BEGIN_SECONDS,
    FILLED_SECONDS,
    PLACE_SECONDS,
    SLICE_SECONDS,
    TURN_SECONDS_MIN,
    Ticket,
    TurnLine,
)
from tests.effort import examples

#: No kernel of the model takes longer: a turn may outlast its slice by one.
KERNEL_SECONDS_MAX = 0.005
seconds_of_turns = st.floats(0.0, KERNEL_SECONDS_MAX)
choices = st.integers(0, 1 << 30)


class Step:
    """A step of the model, and what it has seen while it was able to run.

    arrival   its number in order of arrival; another once its place is used up
    own       seconds of its own at that place
    overdue   seconds of others that may still go by before its next turn
    """

    def __init__(self) -> None:
        self.ticket = Ticket()
        self.arrival = 0
        self.own = 0.0
        self.overdue = 0.0


class Line(RuleBasedStateMachine):
    """Steps come, wait, run, sleep and are cancelled, in any order that an event loop may draw."""

    def __init__(self) -> None:
        super().__init__()
        self.line = TurnLine()
        self.now = 100.0
        self.arrivals = 0
        self.waiting: list[Step] = []
        self.given: list[Step] = []
        self.asleep: list[Step] = []
        #: Since when the slice of this pass runs; None while nobody has run anything.
        self.opened: float | None = None

    # What happens around the line.

    @initialize(count=st.integers(0, 4))
    def some_came(self, count: int) -> None:
        for _ in range(count):
            self.stand_in_line(Step())

    def stand_in_line(self, step: Step) -> None:
        self.line.join(step.ticket)
        if not step.arrival:
            self.arrivals += 1
            step.arrival = self.arrivals
        assert step not in self.waiting
        self.waiting.append(step)
        self.waiting.sort(key=lambda each: each.arrival)
        if not step.overdue:
            # Each before it, those that sleep included, keeps its place for so long; it may miss one turn.
            before = sum(each.arrival < step.arrival for each in (*self.waiting, *self.given, *self.asleep))
            step.overdue = (before + 2) * (PLACE_SECONDS + KERNEL_SECONDS_MAX)

    def works(self, step: Step, seconds: float) -> None:
        """Somebody who has a turn uses it up."""
        if self.opened is None:
            self.opened = self.now
        self.now += seconds
        self.line.stop(step.ticket, self.now)
        counted = max(seconds, TURN_SECONDS_MIN)
        step.overdue = 0.0
        step.own += counted
        if step.own >= PLACE_SECONDS - 1e-12:
            assert not step.ticket.place
            step.own, step.arrival = 0.0, 0
        for other in (*self.waiting, *self.given):
            other.overdue -= counted
            assert other.overdue > 0, "somebody who can run waits for more than those before"

    def goes_on(self, step: Step, then: int) -> None:
        if then == 0:
            self.stand_in_line(step)
        elif then == 1:
            self.asleep.append(step)

    # Rules.

    @rule()
    def pass_begins(self) -> None:
        if self.given:
            return  # the event loop runs all that it has woken before it goes round
        before = self.waiting
        self.opened = None
        woken = self.line.begin_pass()
        assert bool(woken) == bool(before), "somebody is woken as long as anybody waits"
        assert [step.ticket for step in before[: len(woken)]] == woken, "the foremost, in order"
        if len(woken) > 1:
            assert len(woken) * self.line.lately <= FILLED_SECONDS + 1e-12
            assert not any(ticket.missed for ticket in woken), "one that was too many has a pass of its own"
        self.given, self.waiting = before[: len(woken)], before[len(woken) :]

    @precondition(lambda self: self.given)
    @rule(choice=choices, seconds=seconds_of_turns, then=st.integers(0, 2))
    def one_that_was_woken_comes(self, choice: int, seconds: float, then: int) -> None:
        step = self.given.pop(choice % len(self.given))
        has_turn = self.line.take(step.ticket, self.now)
        left = self.opened is None or self.now < self.opened + SLICE_SECONDS
        assert has_turn == left
        if has_turn:
            self.works(step, seconds)
            self.goes_on(step, then)
        else:
            self.stand_in_line(step)

    @rule(seconds=seconds_of_turns, then=st.integers(0, 2), begins=st.booleans())
    def a_new_one_comes(self, seconds: float, then: int, begins: bool) -> None:
        self.comes(Step(), seconds, then, begins)

    @precondition(lambda self: self.asleep)
    @rule(choice=choices, seconds=seconds_of_turns, then=st.integers(0, 2))
    def one_that_slept_comes(self, choice: int, seconds: float, then: int) -> None:
        self.comes(self.asleep.pop(choice % len(self.asleep)), seconds, then, False)

    def comes(self, step: Step, seconds: float, then: int, begins: bool) -> None:
        line = self.line
        has_turn = line.may_begin(self.now) if begins else line.may_run(self.now)
        if self.waiting:
            assert not has_turn, "nobody overtakes those who wait"
        elif not self.given:
            end = BEGIN_SECONDS if begins else SLICE_SECONDS
            assert has_turn == (self.opened is None or self.now < self.opened + end)
        if not has_turn:
            self.stand_in_line(step)
            return
        line.run(step.ticket, self.now)
        self.works(step, seconds)
        self.goes_on(step, then)

    @rule(seconds=st.floats(0.0, BEGIN_SECONDS))
    def a_caller_begins_another(self, seconds: float) -> None:
        """As one who has a turn may: nobody misses anything by it, if it takes what they take."""
        if not self.line.may_begin_another(self.now):
            return
        assert self.opened is not None
        assert self.now + len(self.given) * self.line.lately < self.opened + BEGIN_SECONDS
        self.line.open(self.now)
        self.now += seconds

    @rule(seconds=st.floats(0.0, 0.01))
    def the_host_does_something(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.waiting or self.given)
    @rule(choice=choices)
    def one_is_cancelled(self, choice: int) -> None:
        among = [*self.waiting, *self.given]
        step = among[choice % len(among)]
        (self.waiting if step in self.waiting else self.given).remove(step)
        self.line.leave(step.ticket)

    # What is always so.

    @invariant()
    def nobody_is_lost_or_twice(self) -> None:
        assert [step.ticket for step in self.waiting] == list(self.line.waiting)
        assert {step.ticket for step in self.given} == set(self.line.given)

    @invariant()
    def what_callers_look_at_is_so(self) -> None:
        line = self.line
        if self.waiting or self.given or self.opened is None:
            assert line.begins_until == line.serves_until == float("-inf")
        else:
            assert line.serves_until == line.ends == self.opened + SLICE_SECONDS
            assert line.begins_until == self.opened + BEGIN_SECONDS


TestLine = Line.TestCase
TestLine.settings = settings(max_examples=examples(200), stateful_step_count=60)


def test_short_steps_end_in_order_of_arrival() -> None:
    """Steps of 3 ms keep their place over two turns; each ends before the next begins."""
    line, tickets = TurnLine(), [Ticket() for _ in range(10)]
    for ticket in tickets:
        line.join(ticket)
    left = dict.fromkeys(tickets, 0.003)
    ended: list[Ticket] = []
    now = 0.0
    for _ in range(2 * len(tickets)):
        for ticket in line.begin_pass():
            assert line.take(ticket, now)
            took = min(left[ticket], SLICE_SECONDS)
            now += took
            left[ticket] -= took
            line.stop(ticket, now)
            if left[ticket] > 0:
                line.join(ticket)
            else:
                ended.append(ticket)
            break
    assert ended == tickets


def test_a_long_step_goes_to_the_end_after_sixteen_milliseconds() -> None:
    line, long, short = TurnLine(), Ticket(), Ticket()
    line.join(long)
    line.join(short)
    now = 0.0
    for _ in range(round(PLACE_SECONDS / SLICE_SECONDS)):
        assert line.begin_pass() == [long]
        assert line.take(long, now)
        now += SLICE_SECONDS
        line.stop(long, now)
        line.join(long)
    assert line.begin_pass() == [short]


@given(seconds=st.floats(0.0, 0.0001), count=st.integers(2, 60))
def test_what_fits_is_woken_at_once(seconds: float, count: int) -> None:
    """Once short turns were seen, as many have one in a pass as will fit."""
    line, now = TurnLine(), 0.0
    most = 0
    for _ in range(40):
        for _ in range(count - len(line.waiting)):
            line.join(Ticket())
        woken = line.begin_pass()
        most = max(most, len(woken))
        for ticket in woken:
            assert line.take(ticket, now)
            now += seconds
            line.stop(ticket, now)
    assert most >= min(count, int(FILLED_SECONDS / max(seconds, TURN_SECONDS_MIN)) - 2)


def test_one_too_many_keeps_its_place_and_has_the_next_pass() -> None:
    line, tickets = TurnLine(), [Ticket() for _ in range(3)]
    line.lately = FILLED_SECONDS / 4
    for ticket in tickets:
        line.join(ticket)
    assert line.begin_pass() == tickets
    # Trio draws the last one first, and that one takes it all.
    assert line.take(tickets[2], 0.0)
    line.stop(tickets[2], SLICE_SECONDS)
    for ticket in (tickets[1], tickets[0]):
        assert not line.take(ticket, SLICE_SECONDS)
        line.join(ticket)
    assert list(line.waiting) == tickets[:2]
    for ticket in tickets[:2]:
        assert line.begin_pass() == [ticket]
        if not line.waiting:
            assert not line.may_run(1.0), "nobody else runs anything in that pass"
        assert line.take(ticket, 1.0)
    assert line.may_run(1.0)


@pytest.mark.parametrize("was_woken", [False, True])
def test_one_that_leaves_makes_room(was_woken: bool) -> None:
    line, first, second = TurnLine(), Ticket(), Ticket()
    line.join(first)
    line.join(second)
    if was_woken:
        assert line.begin_pass() == [first]
    line.leave(first)
    assert line.begin_pass() == [second]
    assert line.take(second, 0.0)
    assert line.is_quiet


def test_what_one_missed_counts_no_more_when_it_has_left() -> None:
    """A pass is kept for one that was one too many, and not for whoever left meanwhile and comes again."""
    line, late, other = TurnLine(), Ticket(), Ticket()
    line.lately = TURN_SECONDS_MIN
    for ticket in (late, other):
        line.join(ticket)
    assert line.begin_pass() == [late, other]
    assert line.take(other, 0.0)
    line.stop(other, SLICE_SECONDS)
    assert not line.take(late, SLICE_SECONDS)
    line.join(late)
    line.leave(late)
    line.give(late)
    line.begin_pass()
    assert line.may_run(1.0)
