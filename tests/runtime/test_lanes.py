"""Ownership of a step's executor, and places of items: the tables alone, without trio and threads."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flowengine.runtime import lanes
from flowengine.runtime.lanes import (
    ABANDONED,
    AWAY,
    CALL,
    HERE,
    INLINE,
    KEEP,
    LATER,
    LEAVING,
    NOW,
    OFFLOADED_RUN,
    OVER,
    RECALLED,
    THREAD,
    Ownership,
    lane_of,
)
from tests.effort import examples

LOOP, COMPUTE = "the event loop's thread", "a compute thread"


class OwnershipMachine(RuleBasedStateMachine):
    """Events in any order that the executor can have them in, against what each side must see.

    Whatever arrives is done once, in order, by whoever has the executor, and nothing after the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lanes = Ownership()
        self.owner: str | None = LOOP
        self.is_called_back = False
        self.over = False
        self.sent: list[int] = []
        self.done: list[tuple[int, str | None]] = []
        self.issued: list[int] = []
        self.performed: list[int] = []
        #: Whether the event loop was told of what is in the outbox.
        self.told = False
        self.number = 0

    def _do(self, number: int) -> None:
        self.done.append((number, self.owner))

    # The event loop's thread.

    @precondition(lambda self: self.lanes.state == HERE)
    @rule()
    def finds_what_is_worth_an_offloaded_run(self) -> None:
        self.lanes.depart()

    @precondition(lambda self: self.lanes.state == LEAVING)
    @rule()
    def hands_over(self) -> None:
        self.lanes.hand_over()
        self.owner, self.is_called_back = COMPUTE, False

    @rule(is_own=st.booleans())
    def something_comes(self, is_own: bool) -> None:
        self.number += 1
        doing = partial(self._do, self.number)
        self.sent.append(self.number)
        # What comes from outside may have happened after a write that the thread does not see.
        self.is_called_back = self.is_called_back or (self.owner == COMPUTE and not is_own)
        if self.lanes.arrive(doing, is_own=is_own):
            assert self.owner == LOOP
            doing()
        elif self.over:
            self.sent.remove(self.number)

    @rule()
    def is_recalled(self) -> None:
        self.lanes.recall()
        self.is_called_back = self.is_called_back or self.owner == COMPUTE

    @rule()
    def ends(self) -> None:
        self.lanes.close()
        self.over = True
        self.sent = [number for number, _ in self.done]
        self.issued = self.performed[:]
        self.told = False

    @precondition(lambda self: self.told)
    @rule()
    def empties_the_outbox(self) -> None:
        self.told = False
        self.lanes.take(self.lanes.outbox)
        assert self.performed == self.issued

    # The compute thread.

    @precondition(lambda self: self.owner == COMPUTE)
    @rule(count=st.integers(1, 3))
    def finds_what_must_wait(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            action = self.lanes.issue(partial(self.performed.append, self.number))
            if self.over:
                assert action == lanes.DROP
                continue
            self.issued.append(self.number)
            assert action == (KEEP if self.told else CALL)
            self.told = True

    @precondition(lambda self: self.owner == COMPUTE)
    @rule()
    def gives_back(self) -> None:
        self.lanes.give_back()
        self.owner, self.told = LOOP, False
        self.lanes.take(self.lanes.outbox)
        self.lanes.take(self.lanes.inbox)
        assert [number for number, _ in self.done] == self.sent
        assert self.performed == self.issued

    @invariant()
    def has_one_owner(self) -> None:
        assert self.lanes.is_away == (self.owner == COMPUTE)
        if self.owner == COMPUTE:
            assert self.lanes.is_recalled == (self.is_called_back or self.over)
        assert (self.lanes.state in (OVER, ABANDONED)) == self.over

    @invariant()
    def nothing_is_lost_or_done_twice(self) -> None:
        done = [number for number, _ in self.done]
        assert done == self.sent[: len(done)]
        assert self.performed == self.issued[: len(self.performed)]
        waiting = len(self.sent) - len(done)
        assert len(self.lanes.inbox) == waiting
        assert not waiting or self.owner == COMPUTE


TestOwnership = OwnershipMachine.TestCase
TestOwnership.settings = settings(max_examples=examples(200), stateful_step_count=40)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (LEAVING, "depart"),
        (AWAY, "depart"),
        (OVER, "depart"),
        (HERE, "hand_over"),
        (AWAY, "hand_over"),
        (RECALLED, "hand_over"),
        (HERE, "give_back"),
        (LEAVING, "give_back"),
        (OVER, "give_back"),
    ],
)
def test_what_cannot_happen_says_so(state: int, event: str) -> None:
    ownership = Ownership()
    ownership.state = state
    with pytest.raises(AssertionError, match=lanes.STATE_NAMES[state]):
        getattr(ownership, event)()
    assert ownership.state == state


def test_every_state_knows_what_comes_and_what_it_is_told() -> None:
    """Events from outside may come at any time."""
    every = set(range(len(lanes.STATE_NAMES)))
    for event in ("arrive", "hand in", "recall", "close"):
        assert set(lanes._TABLE[event]) == every


def test_a_message_put_into_the_outbox_while_it_is_emptied_is_not_forgotten() -> None:
    """Two real threads: the event loop's empties the box whenever it was told to."""
    ownership = Ownership()
    ownership.state = AWAY
    told = threading.Semaphore(0)
    done: list[int] = []

    def compute() -> None:
        for number in range(5000):
            if ownership.issue(partial(done.append, number)) == CALL:
                told.release()
        told.release()

    worker = threading.Thread(target=compute)
    worker.start()
    while len(done) < 5000:
        assert told.acquire(timeout=30), f"{len(done)} of 5000, {len(ownership.outbox)} forgotten"
        ownership.take(ownership.outbox)
    worker.join()
    assert done == list(range(5000))


def test_who_has_the_executor_does_at_once_what_it_may() -> None:
    ownership = Ownership()
    assert ownership.issue(lambda: None) == NOW
    assert ownership.arrive(lambda: None)
    assert not ownership.outbox
    assert not ownership.inbox


class Facts:
    """The facts that are known when a kernel with large inputs is ready."""

    def __init__(self, **known: Any) -> None:
        self.known: dict[str, Any] = {
            "seconds_left": 0.002,
            "uses_threads": True,
            "is_product": False,
            "is_running": False,
            "product_is_running": False,
            "others_wait": False,
            "has_company": lambda: False,
            "may_wait": True,
            "departs": lambda: False,
        }
        self.known.update(known)

    def lane(self, estimate: float) -> int:
        return lane_of(estimate, **self.known)


def yes() -> bool:
    return True


def refused() -> bool:
    raise AssertionError("asked though it does not matter")


@pytest.mark.parametrize(
    ("estimate", "known", "lane"),
    [
        # What takes less than the hand-off runs where it is, and nothing is asked.
        (100.0, {"has_company": refused, "departs": refused, "others_wait": True}, INLINE),
        (5000.0, {"uses_threads": False, "departs": refused}, INLINE),
        (101.0, {"departs": yes, "has_company": refused}, OFFLOADED_RUN),
        # One for a thread and one for here.
        (101.0, {"has_company": yes}, THREAD),
        (101.0, {"others_wait": True}, THREAD),
        (101.0, {}, INLINE),
        # Alone: for the host's sake only.
        (800.0, {}, INLINE),
        (801.0, {}, THREAD),
        (800.0, {"is_running": True}, INLINE),
        (1700.0, {"is_product": True}, INLINE),
        (1800.0, {"is_product": True}, INLINE),
        (1801.0, {"is_product": True}, THREAD),
        (801.0, {"is_running": True, "is_product": True}, THREAD),
        (799.0, {"is_running": True}, INLINE),
        (200.0, {"is_product": True, "product_is_running": True}, THREAD),
        (200.0, {"product_is_running": True}, INLINE),
        # At a slice's end a product waits for the next one, once.
        (1700.0, {"is_product": True, "seconds_left": 0.001}, LATER),
        (1700.0, {"is_product": True, "seconds_left": 0.001, "may_wait": False}, THREAD),
        (700.0, {"is_product": True, "seconds_left": 0.0}, INLINE),
    ],
)
def test_where_a_kernel_runs(estimate: float, known: dict[str, Any], lane: int) -> None:
    got = Facts(**known).lane(estimate)
    assert lanes.LANE_NAMES[got] == lanes.LANE_NAMES[lane]


def test_a_longer_kernel_is_never_sent_less_far() -> None:
    """All else equal: from inline over the next slice to a thread."""
    order = (INLINE, LATER, THREAD)
    choices: list[dict[str, Any]] = [
        {"is_product": p, "is_running": r, "others_wait": w, "seconds_left": left, "has_company": company}
        for p in (False, True)
        for r in (False, True)
        for w in (False, True)
        for left in (0.0, 0.001, 0.002)
        for company in (yes, _no)
    ]
    for known in choices:
        found = [Facts(**known).lane(us) for us in (50.0, 150.0, 700.0, 900.0, 1500.0, 1900.0, 9000.0)]
        assert [order.index(lane) for lane in found] == sorted(order.index(lane) for lane in found)


def _no() -> bool:
    return False
