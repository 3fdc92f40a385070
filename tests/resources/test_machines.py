"""Rule-based machines for accumulators, barriers, staging areas and mutexes, against small models."""

from __future__ import annotations

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
from flowengine.resources.accumulator import Accumulator, SparseAccumulator
from flowengine.resources.barrier import Barrier
from flowengine.resources.mutex import Mutex, MutexLock
from flowengine.resources.staging import StagingArea
from flowengine.resources.waiting import Attempt
from tests.effort import examples

_SETTINGS = settings(max_examples=examples(200), stateful_step_count=50)
_KEYS = st.integers(0, 6)


class BarrierMachine(RuleBasedStateMachine):
    """Keys begin in an order, are complete with both components, and leave in the order of beginning."""

    @initialize()
    def make(self) -> None:
        self.barrier = Barrier("b", (dtypes.float32,) * 2, (SCALAR, SCALAR))
        #: {key: (number in order of beginning, {component: value})}
        self.incomplete: dict[int, tuple[int, dict[int, float]]] = {}
        self.ready: list[tuple[int, int, float, float]] = []
        self.begun = 0
        self.closed = False

    @rule(component=st.integers(0, 1), key=_KEYS, value=st.integers(0, 99))
    def insert(self, component: int, key: int, value: int) -> None:
        keys = np.empty(1, object)
        keys[0] = b"%d" % key
        values = np.array([value], np.float32)
        if key not in self.incomplete and self.closed:
            with pytest.raises(CancelledError):
                self.barrier.insert_many(component, keys, values)
            return
        if key in self.incomplete and component in self.incomplete[key][1]:
            with pytest.raises(InvalidArgumentError):
                self.barrier.insert_many(component, keys, values)
            return
        self.barrier.insert_many(component, keys, values)
        if key not in self.incomplete:
            self.incomplete[key] = (self.begun, {})
            self.begun += 1
        number, held = self.incomplete[key]
        held[component] = value
        if len(held) == 2:
            del self.incomplete[key]
            self.ready.append((number, key, held[0], held[1]))
            self.ready.sort()

    @rule(count=st.integers(1, 4), up_to=st.booleans())
    def take(self, count: int, up_to: bool) -> None:
        wanted = count
        if self.closed:
            if up_to:
                wanted = min(count, len(self.ready))
            promised = len(self.ready) + (0 if up_to else len(self.incomplete))
            if promised < max(wanted, 1):
                with pytest.raises(OutOfRangeError):
                    self.barrier.take_many_nowait(count, up_to=up_to)
                return
        found: Any = self.barrier.take_many_nowait(count, up_to=up_to)
        if len(self.ready) < wanted:
            assert found is WOULD_WAIT
            return
        taken, self.ready = self.ready[:wanted], self.ready[wanted:]
        _, keys, first, second = found
        assert keys.tolist() == [b"%d" % key for _, key, _, _ in taken]
        assert first.tolist() == [a for _, _, a, _ in taken]
        assert second.tolist() == [b for _, _, _, b in taken]

    @precondition(lambda self: getattr(self, "begun", 0) > 8 and not self.closed)
    @rule(cancel=st.booleans())
    def close(self, cancel: bool) -> None:
        self.barrier.close(cancel_pending_enqueues=cancel)
        self.closed = True
        if cancel:
            self.incomplete.clear()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "barrier"):
            assert self.barrier.ready_size == len(self.ready)
            assert self.barrier.incomplete_size == len(self.incomplete)


class AreaMachine(RuleBasedStateMachine):
    """A staging area is a list with a capacity."""

    @initialize(capacity=st.integers(0, 3))
    def make(self, capacity: int) -> None:
        self.capacity = capacity
        self.area = StagingArea("s", capacity=capacity)
        self.model: list[int] = []

    @rule(value=st.integers(0, 99))
    def put(self, value: int) -> None:
        result = self.area.put_nowait((np.int64(value),))
        if self.capacity and len(self.model) >= self.capacity:
            assert result is WOULD_WAIT
        else:
            assert result is None
            self.model.append(value)

    @rule()
    def get(self) -> None:
        found: Any = self.area.get_nowait()
        assert found == (self.model.pop(0),) if self.model else found is WOULD_WAIT

    @rule(index=st.integers(0, 4))
    def peek(self, index: int) -> None:
        found: Any = self.area.peek_nowait(index)
        assert found == (self.model[index],) if index < len(self.model) else found is WOULD_WAIT

    @rule()
    def clear(self) -> None:
        self.area.clear()
        self.model.clear()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "area"):
            assert len(self.area) == len(self.model)
            assert self.area.bytes_held == 8 * len(self.model)


class MutexMachine(RuleBasedStateMachine):
    """One lock at a time; one that was given back already is refused."""

    @initialize()
    def make(self) -> None:
        self.mutex = Mutex("m")
        self.holder: MutexLock | None = None
        self.old: list[MutexLock] = []

    @rule()
    def lock(self) -> None:
        found = self.mutex.lock_nowait()
        if self.holder is not None:
            assert found is WOULD_WAIT
        else:
            assert isinstance(found, MutexLock)
            self.holder = found

    @precondition(lambda self: getattr(self, "holder", None) is not None)
    @rule()
    def release(self) -> None:
        assert self.holder is not None
        self.holder.release()
        self.old.append(self.holder)
        self.holder = None

    @precondition(lambda self: bool(getattr(self, "old", None)))
    @rule(data=st.data())
    def release_again(self, data: st.DataObject) -> None:
        with pytest.raises(InvalidArgumentError):
            data.draw(st.sampled_from(self.old)).release()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "mutex"):
            assert self.mutex.is_locked == (self.holder is not None)


class AccumulatorMachine(RuleBasedStateMachine):
    """A sum, a count and a line of takers who are served in the order of their coming."""

    @initialize(average=st.booleans())
    def make(self, average: bool) -> None:
        self.average = average
        self.accumulator: Any = self.new()
        self.added: list[dict[int, int]] = []
        self.step = 0
        #: (attempt, gradients that it requires)
        self.takers: list[tuple[Attempt, int]] = []

    def new(self) -> Any:
        return Accumulator("a", dtypes.float64, TensorShape([3]), average=self.average)

    def add(self, step: int, gradient: dict[int, int]) -> None:
        self.accumulator.apply(step, np.array([gradient.get(i, 0) for i in range(3)], np.float64))

    def check(self, found: Any, added: list[dict[int, int]]) -> None:
        total = np.array([sum(gradient.get(i, 0) for gradient in added) for i in range(3)], np.float64)
        np.testing.assert_allclose(found, total / (len(added) if self.average else 1))

    @rule(
        late=st.integers(-2, 2),
        gradient=st.dictionaries(st.integers(0, 2), st.integers(-9, 9), min_size=1),
    )
    def apply(self, late: int, gradient: dict[int, int]) -> None:
        step = self.step - late
        self.add(step, dict(sorted(gradient.items())))
        if step >= self.step:
            self.added.append(gradient)
        self.serve()

    def serve(self) -> None:
        while self.takers and len(self.added) >= self.takers[0][1]:
            attempt, _ = self.takers.pop(0)
            assert attempt.finished
            self.check(attempt.result, self.added)
            self.added, self.step = [], self.step + 1
        assert not any(attempt.finished for attempt, _ in self.takers)

    @rule(required=st.integers(1, 4))
    def take(self, required: int) -> None:
        found = self.accumulator.take_nowait(required)
        if self.takers or len(self.added) < required:
            assert found is WOULD_WAIT
        else:
            self.check(found, self.added)
            self.added, self.step = [], self.step + 1

    @rule(required=st.integers(1, 4))
    def wait(self, required: int) -> None:
        self.takers.append((self.accumulator.start_take(required), required))
        self.serve()

    @precondition(lambda self: bool(getattr(self, "takers", None)))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.takers) - 1))
        attempt, _ = self.takers.pop(at)
        self.accumulator.withdraw(attempt)
        self.serve()

    @rule(ahead=st.integers(0, 2))
    def move_on(self, ahead: int) -> None:
        self.step += ahead
        self.accumulator.set_global_step(self.step)

    @rule(required=st.integers(-2, 0))
    def nonsense(self, required: int) -> None:
        with pytest.raises(InvalidArgumentError, match=str(required)):
            self.accumulator.take_nowait(required)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "added"):
            assert self.accumulator.count == len(self.added)
            assert self.accumulator.global_step == self.step


class SparseAccumulatorMachine(AccumulatorMachine):
    """Slices are averaged over the gradients that had them."""

    def new(self) -> Any:
        return SparseAccumulator("a", dtypes.float64, TensorShape([3, 1]), average=self.average)

    def add(self, step: int, gradient: dict[int, int]) -> None:
        values = np.array(list(gradient.values()), np.float64)[:, None]
        self.accumulator.apply(step, np.array(list(gradient)), values, [3, 1])

    def check(self, found: Any, added: list[dict[int, int]]) -> None:
        indices, values, shape = found
        assert indices.tolist() == sorted(set().union(*added))
        assert shape.tolist() == [3, 1]
        for index, value in zip(indices.tolist(), values[:, 0].tolist(), strict=True):
            mine = [gradient[index] for gradient in added if index in gradient]
            assert value == pytest.approx(sum(mine) / (len(mine) if self.average else 1))


TestAccumulator = AccumulatorMachine.TestCase
TestSparseAccumulator = SparseAccumulatorMachine.TestCase
TestBarrier = BarrierMachine.TestCase
TestArea = AreaMachine.TestCase
TestMutex = MutexMachine.TestCase
for _case in (TestAccumulator, TestSparseAccumulator, TestBarrier, TestArea, TestMutex):
    _case.settings = _SETTINGS
del _case  # else collected once more
