"""A step at its master, without any task: drawn orders of how its parts end, against a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.cluster import messages as m
from flowengine.cluster.master.calls import PartEnded, TaskCalls
from flowengine.cluster.master.plans import MasterPlan, TaskPart
from flowengine.cluster.master.steps import MasterStep
from flowengine.core.errors import (
    CancelledError,
    InternalError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)

DERIVED = m.StepEnd(m.error_to_table(CancelledError("another task's")), is_derived=True)


def own(task: str) -> m.StepEnd:
    return m.StepEnd(m.error_to_table(InvalidArgumentError(f"of {task}")))


class FakeCall:
    """A part that is under way. What it does when it is cancelled is drawn."""

    def __init__(self, calls: FakeCalls, part: TaskPart, ended: PartEnded) -> None:
        self.part = part
        self.cancelled = 0
        #: Another part that ends with this one, as those of one connection do.
        self.takes_along: FakeCall | None = None
        self._calls = calls
        self._ended = ended

    def end(
        self, done: m.StepEnd | None, tensors: Sequence[Any] = (), error: Exception | None = None
    ) -> None:
        self._ended(self.part, done, list(tensors), error)

    def cancel(self) -> None:
        self.cancelled += 1
        if self.takes_along is not None:
            self.takes_along.end(None, error=UnavailableError("gone as well"))
        if self._calls.ends_at_once:
            self.end(None, error=CancelledError("given up"))


class FakeCalls:
    """A stand-in for `TaskCalls`, as far as a step uses it. Calls `first` with each part as that begins."""

    def __init__(self, *, ends_at_once: bool = True, first: Callable[[FakeCall], None] | None = None) -> None:
        self.members = self
        self.ends_at_once = ends_at_once
        self.begun: list[FakeCall] = []
        self.counted = 0
        self._first = first

    def count(self, method: str, messages: int) -> None:
        self.counted += messages

    def begin(
        self, plan: MasterPlan, part: TaskPart, step: int, feeds: object, ended: PartEnded, **_: bool
    ) -> FakeCall:
        call = FakeCall(self, part, ended)
        self.begun.append(call)
        if self._first is not None:
            self._first(call)
        return call


class FakePlan:
    """So many parts, each of which gives one value."""

    def __init__(self, count: int) -> None:
        self.fetches = count
        self.parts = [TaskPart(f"task{index}", 1, ()) for index in range(count)]
        for index, part in enumerate(self.parts):
            part.fetches = [index]


class Outcome:
    """How a step ended, and that it ended once."""

    def __init__(self, calls: FakeCalls, count: int) -> None:
        self.ends: list[BaseException | None] = []
        self.step = MasterStep(
            cast(TaskCalls, calls),
            cast(MasterPlan, FakePlan(count)),
            7,
            (),
            lambda _, error: self.ends.append(error),
            wants_metadata=False,
        )
        self.step.begin()

    @property
    def error(self) -> BaseException | None:
        (error,) = self.ends
        return error


def test_every_part_gives_its_values() -> None:
    calls = FakeCalls()
    outcome = Outcome(calls, 3)
    for call in reversed(calls.begun):
        assert outcome.ends == []
        call.end(m.StepEnd(), [np.float32(3)])
    assert outcome.error is None
    assert outcome.step.values == [3, 3, 3]
    assert calls.counted == 3


def test_a_part_that_ends_again_changes_nothing() -> None:
    calls = FakeCalls()
    outcome = Outcome(calls, 2)
    first, second = calls.begun
    first.end(m.StepEnd(), [np.float32(1)])
    first.end(own("task0"))
    assert outcome.ends == []
    second.end(m.StepEnd(), [np.float32(2)])
    second.end(None, error=UnavailableError("late"))
    first.end(m.StepEnd(), [np.float32(5)])
    assert outcome.error is None
    assert outcome.step.values == [1, 2]


def test_a_part_that_fails_while_it_is_begun_keeps_the_others_from_being_begun() -> None:
    calls = FakeCalls(first=lambda call: call.end(own(call.part.task)))
    outcome = Outcome(calls, 3)
    assert len(calls.begun) == 1
    assert isinstance(outcome.error, InvalidArgumentError)


def test_a_step_of_no_parts_is_over_at_once() -> None:
    assert Outcome(FakeCalls(), 0).error is None


def test_other_values_than_were_asked_for() -> None:
    calls = FakeCalls()
    outcome = Outcome(calls, 1)
    calls.begun[0].end(m.StepEnd(), [])
    assert isinstance(outcome.error, InternalError)


def test_metadata_are_kept_by_task() -> None:
    calls = FakeCalls()
    outcome = Outcome(calls, 2)
    for call in calls.begun:
        call.end(m.StepEnd(metadata={"items": len(call.part.task)}), [np.float32(0)])
    assert outcome.step.metadata == {"task0": {"items": 5}, "task1": {"items": 5}}


#: How a part ends by itself.
ENDS = st.sampled_from(["well", "own", "derived", "lost"])


@given(
    st.lists(ENDS, min_size=1, max_size=6), st.randoms(use_true_random=False), st.booleans(), st.booleans()
)
def test_whatever_ends_when(ends: list[str], random: Any, at_once: bool, is_cancelled: bool) -> None:
    """It ends once, when every part has, with the first error that is a task's own, else a derived one."""
    calls = FakeCalls(ends_at_once=at_once)
    outcome = Outcome(calls, len(ends))
    order = list(zip(calls.begun, ends, strict=True))
    random.shuffle(order)
    cancelled_after = random.randrange(len(order)) if is_cancelled else None
    expected: list[str] = []
    given_up = False
    left = {id(call) for call in calls.begun}
    for index, (call, end) in enumerate(order):
        if index == cancelled_after:
            outcome.step.cancel()
            expected += ["" if given_up or "own" in expected else "cancelled"]
            given_up = True
            if at_once:
                left.clear()
        if id(call) not in left:
            continue
        assert outcome.ends == []
        left.discard(id(call))
        if end == "well":
            call.end(m.StepEnd(), [np.float32(1)])
        elif end == "derived":
            call.end(DERIVED)
            expected.append("derived")
        else:
            call.end(own(call.part.task) if end == "own" else None, error=UnavailableError("lost"))
            if not given_up:
                expected.append("own")
                given_up = True
                if at_once:
                    left.clear()
    assert all(call.cancelled <= 1 for call in calls.begun)
    error = outcome.error
    if "own" in expected and "cancelled" not in expected:
        assert isinstance(error, InvalidArgumentError | UnavailableError)
    elif "cancelled" in expected:
        assert isinstance(error, CancelledError)
        assert "cancelled the call" in str(error)
    elif "derived" in expected:
        assert isinstance(error, CancelledError)
        assert "another task's" in str(error)
    else:
        assert error is None
    outcome.step.cancel()
    assert len(outcome.ends) == 1


@pytest.mark.parametrize("count", [1, 700])
def test_giving_up_many_parts_needs_no_deep_stack(count: int) -> None:
    calls = FakeCalls()
    outcome = Outcome(calls, count)
    calls.begun[0].end(own("task0"))
    assert isinstance(outcome.error, OpError)
    assert [call.cancelled for call in calls.begun] == [0, *[1] * (count - 1)]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_part_that_ends_while_another_is_given_up_keeps_none_from_being_given_up(at_once: bool) -> None:
    calls = FakeCalls(ends_at_once=at_once)
    outcome = Outcome(calls, 4)
    calls.begun[0].takes_along = calls.begun[1]
    outcome.step.cancel()
    assert [call.cancelled for call in calls.begun] == [1, 0, 1, 1]
    for call in calls.begun:
        call.end(None, error=CancelledError("given up"))
    assert isinstance(outcome.error, CancelledError)
