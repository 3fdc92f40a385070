"""The synchronous cores of all queues against a model that is a list of lists."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flowengine.core import dtypes
from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.resources.queue import Queue
from flowengine.resources.queue_attempts import DequeueMany
from flowengine.resources.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from flowengine.resources.waiting import Attempt
from tests.effort import examples


class QueueMachine(RuleBasedStateMachine):
    """Elements are numbers in order of arrival; everything that goes in comes out once, or is reported.

    Subclasses say which queue it is and in which order what it holds must come out.
    """

    ordered = True
    held_back = 0

    def make_queue(self, capacity: int) -> Queue:
        return FIFOQueue("q", (dtypes.int64,), (SCALAR,), capacity=capacity)

    def element(self, number: int) -> tuple[Any, ...]:
        return (np.int64(number),)

    def batch(self, numbers: list[int]) -> tuple[Any, ...]:
        return (np.array(numbers, dtype=np.int64),)

    def number(self, element: tuple[Any, ...]) -> int:
        return int(element[-1])

    @initialize(capacity=st.integers(1, 5))
    def make(self, capacity: int) -> None:
        self.capacity = max(capacity, self.held_back + 1)
        self.queue = self.make_queue(self.capacity)
        self.next = 0
        #: (attempt, its numbers) for those in line on either side
        self.entering: list[tuple[Attempt, list[int]]] = []
        self.leaving: list[tuple[Attempt, int, bool]] = []
        #: numbers that went in and were not lost to a cancelled enqueue, and those that came out
        self.entered: list[int] = []
        self.out: list[int] = []
        self.given_back = False

    def fresh(self, count: int) -> list[int]:
        numbers = list(range(self.next, self.next + count))
        self.next += count
        return numbers

    @rule()
    def enqueue(self) -> None:
        numbers = self.fresh(1)
        try:
            waits = self.queue.enqueue_nowait(self.element(numbers[0])) is WOULD_WAIT
        except CancelledError:
            assert self.queue.is_closed
            return
        if waits:
            attempt = self.queue.start_enqueue([self.element(numbers[0])])
            assert not attempt.finished
            self.entering.append((attempt, numbers))
        self.entered += numbers

    @rule(count=st.integers(0, 7))
    def enqueue_many(self, count: int) -> None:
        numbers = self.fresh(count)
        try:
            waits = self.queue.enqueue_many_nowait(self.batch(numbers)) is WOULD_WAIT
        except CancelledError:
            assert self.queue.is_closed
            return
        if waits:
            self.entering.append(
                (self.queue.start_enqueue([self.element(number) for number in numbers]), numbers)
            )
        self.entered += numbers

    @rule()
    def dequeue(self) -> None:
        try:
            element = self.queue.dequeue_nowait()
        except OutOfRangeError:
            assert self.queue.is_closed
            assert not len(self.queue)
            return
        if element is WOULD_WAIT:
            attempt = self.queue.start_dequeue()
            assert not attempt.finished
            self.leaving.append((attempt, 1, False))
        else:
            self.out.append(self.number(element))

    @rule(count=st.integers(0, 9), up_to=st.booleans())
    def dequeue_many(self, count: int, up_to: bool) -> None:
        try:
            batch = self.queue.dequeue_many_nowait(count, up_to=up_to)
        except OutOfRangeError:
            assert self.queue.is_closed
            assert len(self.queue) < count
            return
        if batch is WOULD_WAIT:
            self.leaving.append((self.queue.start_dequeue_many(count, up_to=up_to), count, up_to))
        else:
            self.receive(batch, count, up_to)

    def receive(self, batch: tuple[Any, ...], count: int, up_to: bool) -> None:
        numbers = batch[-1].tolist()
        assert len(numbers) == count or (up_to and self.queue.is_closed and 0 < len(numbers) < count)
        self.out += numbers

    @precondition(lambda self: self.leaving)
    @rule(which=st.integers(0, 20))
    def cancel_dequeue(self, which: int) -> None:
        attempt, count, _ = self.leaving.pop(which % len(self.leaving))
        self.queue.withdraw(attempt)
        self.given_back = self.given_back or count > 1

    @precondition(lambda self: self.entering)
    @rule(which=st.integers(0, 20))
    def cancel_enqueue(self, which: int) -> None:
        attempt, numbers = self.entering.pop(which % len(self.entering))
        self.queue.withdraw(attempt)
        self.lose(attempt, numbers)

    def lose(self, attempt: Any, numbers: list[int]) -> None:
        """Forget what the attempt says it has not enqueued."""
        done = int(attempt.progress().split()[0])
        for number in numbers[done:]:
            self.entered.remove(number)

    @rule(cancel=st.booleans(), chance=st.integers(0, 4))
    def close(self, cancel: bool, chance: int) -> None:
        if chance:
            return
        if cancel:
            entering, self.entering = self.entering, []
            self.queue.close_nowait(cancel_pending_enqueues=True)
            for attempt, numbers in entering:
                assert isinstance(attempt.error, CancelledError)
                self.lose(attempt, numbers)
            assert self.queue.is_closed
            return
        closed = self.queue.is_closed
        try:
            if self.queue.close_nowait() is WOULD_WAIT:
                assert self.entering
        except CancelledError:
            assert closed

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "queue"):
            return
        queue = self.queue
        for attempt, _ in [entry for entry in self.entering if entry[0].finished]:
            assert attempt.error is None
        self.entering = [entry for entry in self.entering if not entry[0].finished]
        for attempt, count, up_to in [entry for entry in self.leaving if entry[0].finished]:
            if attempt.error is not None:
                assert isinstance(attempt.error, OutOfRangeError)
                assert queue.is_closed
                self.given_back = True
            elif not getattr(attempt.result[-1], "ndim", 0):
                self.out.append(self.number(attempt.result))
            else:
                self.receive(attempt.result, count, up_to)
        self.leaving = [entry for entry in self.leaving if not entry[0].finished]

        taken = [self.number(e) for a, _, _ in self.leaving for e in getattr(a, "_taken", ())]
        waiting = [
            number
            for a, numbers in self.entering
            for number in numbers[int(a.progress().split()[0]) :]  # type: ignore[attr-defined]
        ]
        inside = self.contents()
        promised = sum(a._held for a, _, _ in self.leaving if isinstance(a, DequeueMany)) - len(taken)
        assert len(inside) - promised == queue.size
        assert promised == 0 or not self.ordered
        if self.ordered:
            assert self.out + taken + inside + waiting == self.entered
        else:
            assert Counter(self.out + taken + inside + waiting) == Counter(self.entered)

        # Nobody waits for what is there.
        if self.entering:
            assert queue.size >= self.capacity
            assert not queue.is_closed
        if self.leaving:
            assert not queue.is_closed
            wanted = 1 if queue.takes_as_they_come else self.leaving[0][1]
            assert queue.size < self.held_back + wanted
        if not self.given_back:
            assert queue.size <= self.capacity

    def contents(self) -> list[int]:
        queue: Any = self.queue  # what it holds is no part of its interface
        return [self.number(element) for element in queue._store]


class PaddedMachine(QueueMachine):
    def make_queue(self, capacity: int) -> Queue:
        return PaddingFIFOQueue("q", (dtypes.int64,), (SCALAR,), capacity=capacity)


class ShuffleMachine(QueueMachine):
    ordered = False
    held_back = 2

    def make_queue(self, capacity: int) -> Queue:
        return RandomShuffleQueue(
            "q", (dtypes.int64,), (SCALAR,), capacity=capacity, min_after_dequeue=2, seeds=(1, 2)
        )

    def contents(self) -> list[int]:
        queue: Any = self.queue  # what it holds is no part of its interface
        return [self.number(element) for element in queue._store]


class PriorityMachine(QueueMachine):
    """With one priority for all, arrival decides; the order among priorities is tested below."""

    def make_queue(self, capacity: int) -> Queue:
        return PriorityQueue("q", (dtypes.int64,), (SCALAR,), capacity=capacity)

    def element(self, number: int) -> tuple[Any, ...]:
        return (np.int64(3), np.int64(number))

    def batch(self, numbers: list[int]) -> tuple[Any, ...]:
        return (np.full(len(numbers), 3, np.int64), np.array(numbers, dtype=np.int64))

    def contents(self) -> list[int]:
        return [self.number(entry[2]) for entry in sorted(self.queue._heap)]  # type: ignore[attr-defined]


_SETTINGS = settings(max_examples=examples(200), stateful_step_count=50)
TestFIFO = QueueMachine.TestCase
TestPadded = PaddedMachine.TestCase
TestShuffle = ShuffleMachine.TestCase
TestPriority = PriorityMachine.TestCase
for _case in (TestFIFO, TestPadded, TestShuffle, TestPriority):
    _case.settings = _SETTINGS
del _case  # else collected once more


def test_priority_decides_then_arrival() -> None:
    queue = PriorityQueue("q", (dtypes.string,), (SCALAR,))
    for priority, name in [(5, b"e"), (-1, b"a"), (5, b"f"), (0, b"c"), (-1, b"b"), (0, b"d")]:
        queue.enqueue_nowait((np.int64(priority), name))
    priorities, names = queue.dequeue_many_nowait(6)
    assert priorities.tolist() == [-1, -1, 0, 0, 5, 5]
    assert names.tolist() == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_padding_fills_with_zeros_and_empty_strings() -> None:
    queue = PaddingFIFOQueue(
        "q", (dtypes.int32, dtypes.string), (TensorShape([None, 2]), TensorShape([None]))
    )
    queue.enqueue_nowait((np.ones((1, 2), np.int32), np.array([b"a", b"b"], object)))
    queue.enqueue_nowait((np.ones((2, 2), np.int32), np.array([], object)))
    numbers, strings = queue.dequeue_many_nowait(2)
    assert numbers.tolist() == [[[1, 1], [0, 0]], [[1, 1], [1, 1]]]
    assert strings.tolist() == [[b"a", b"b"], [b"", b""]]
    assert queue.dequeue_many_nowait(0)[0].shape == (0, 0, 2)


def test_a_component_of_a_fixed_shape_stands_beside_one_that_is_padded() -> None:
    queue = PaddingFIFOQueue("q", (dtypes.int32, dtypes.int32), (TensorShape([]), TensorShape([None])))
    queue.enqueue_nowait((np.int32(7), np.array([1], np.int32)))
    queue.enqueue_nowait((np.int32(8), np.array([2, 3], np.int32)))
    fixed, padded = queue.dequeue_many_nowait(2)
    assert (fixed.tolist(), padded.tolist()) == ([7, 8], [[1, 0], [2, 3]])


def test_shuffle_is_seeded_and_a_permutation() -> None:
    def order(seeds: tuple[int, int]) -> list[int]:
        queue = RandomShuffleQueue("q", (dtypes.int64,), (SCALAR,), seeds=seeds)
        queue.enqueue_many_nowait((np.arange(50),))
        numbers: list[int] = queue.dequeue_many_nowait(50)[0].tolist()
        return numbers

    assert order((1, 2)) == order((1, 2))
    assert order((1, 2)) != order((2, 1))
    assert sorted(order((3, 4))) == list(range(50))


def test_more_than_the_capacity_can_be_dequeued_at_once() -> None:
    queue = FIFOQueue("q", (dtypes.int64,), (SCALAR,), capacity=2)
    many = queue.start_dequeue_many(5)
    entering = queue.start_enqueue([(np.int64(i),) for i in range(6)])
    assert entering.finished
    assert many.outcome()[0].tolist() == [0, 1, 2, 3, 4]
    assert queue.size == 1


def test_elements_belong_to_the_queue() -> None:
    queue = FIFOQueue("q", (dtypes.float32,), (TensorShape([2]),))
    given = np.zeros((2, 2), np.float32)
    queue.enqueue_nowait((given[0],))
    queue.enqueue_many_nowait((given,))
    given[...] = 9
    for _ in range(3):
        assert queue.dequeue_nowait()[0].tolist() == [0, 0]


def test_a_lone_row_does_not_keep_its_batch() -> None:
    queue = FIFOQueue("q", (dtypes.float32,), (TensorShape([2]),))
    queue.enqueue_many_nowait((np.zeros((1000, 2), np.float32),))
    assert queue.dequeue_nowait()[0].base is None


def test_errors() -> None:
    queue = FIFOQueue("q", (dtypes.float32, dtypes.int32), (TensorShape([2]), SCALAR), capacity=1)
    with pytest.raises(InvalidArgumentError, match=r"component 0. Expected \[2\], got \[3\]"):
        queue.enqueue_nowait((np.zeros(3, np.float32), np.int32(1)))
    with pytest.raises(InvalidArgumentError, match="Component 1 has 2, and should have 3"):
        queue.enqueue_many_nowait((np.zeros((3, 2), np.float32), np.zeros(2, np.int32)))
    with pytest.raises(InvalidArgumentError, match="rank 1 or more"):
        queue.enqueue_many_nowait((np.zeros((3, 2), np.float32), np.int32(1)))
    with pytest.raises(InvalidArgumentError, match="-1 < 0"):
        queue.dequeue_many_nowait(-1)
    with pytest.raises(InvalidArgumentError, match="specified shapes"):
        FIFOQueue("q", (dtypes.int32,), None).dequeue_many_nowait(1)
    with pytest.raises(InvalidArgumentError, match="complete shapes"):
        FIFOQueue("q", (dtypes.int32,), (TensorShape([None]),))
    with pytest.raises(InvalidArgumentError, match="known rank"):
        PaddingFIFOQueue("q", (dtypes.int32,), (TensorShape(None),))
    with pytest.raises(InvalidArgumentError, match="1 component types but 2 shapes"):
        FIFOQueue("q", (dtypes.int32,), (SCALAR, SCALAR))
    with pytest.raises(InvalidArgumentError, match="must be < capacity"):
        RandomShuffleQueue("q", (dtypes.int32,), (SCALAR,), capacity=2, min_after_dequeue=2)
    queue.close_nowait()
    with pytest.raises(CancelledError, match="FIFOQueue 'q' is closed"):
        queue.enqueue_nowait((np.zeros(2, np.float32), np.int32(1)))
    with pytest.raises(OutOfRangeError, match=r"insufficient elements \(requested 1, current size 0\)"):
        queue.dequeue_nowait()
    with pytest.raises(CancelledError, match="already closed"):
        queue.close_nowait()


def test_close_waits_for_the_enqueues_before_it_and_refuses_those_behind() -> None:
    queue = FIFOQueue("q", (dtypes.int64,), (SCALAR,), capacity=1)
    queue.enqueue_nowait((np.int64(0),))
    before = queue.start_enqueue([(np.int64(1),)])
    assert queue.close_nowait() is WOULD_WAIT
    closing = queue.start_close()
    behind = queue.start_enqueue([(np.int64(2),)])
    assert not queue.is_closed
    assert queue.dequeue_nowait() == (0,)
    assert before.finished
    assert closing.finished
    assert queue.is_closed
    assert isinstance(behind.error, CancelledError)
    assert queue.dequeue_nowait() == (1,)


def test_destroy_wakes_everybody() -> None:
    queue = FIFOQueue("q", (dtypes.int64,), (SCALAR,), capacity=1)
    waiting = queue.start_dequeue()
    queue.destroy()
    assert isinstance(waiting.error, CancelledError)


def test_a_destroyed_shuffle_queue_has_promised_nothing() -> None:
    """Elements that were set aside for a batch are gone with the others."""
    queue = RandomShuffleQueue("q", (dtypes.int64,), (SCALAR,))
    waiting = queue.start_dequeue_many(3)
    queue.enqueue_nowait((np.int64(1),))
    assert (queue.size, waiting.finished) == (0, False)
    queue.destroy()
    assert queue.size == 0
    assert isinstance(waiting.error, CancelledError)
