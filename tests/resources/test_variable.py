"""Variables: what was read never changes, and what nobody reads is written in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flowengine.core import dtypes
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.resources.variable import Variable
from tests.effort import examples


def _variable(value: Any, dtype: dtypes.DType = dtypes.float32) -> Variable:
    variable = Variable("v", dtype, UNKNOWN_SHAPE)
    variable.assign(value)
    return variable


def _address(variable: Variable) -> int:
    return int(variable.mutable().ctypes.data)


def test_uninitialized() -> None:
    variable = Variable("v", dtypes.float32, TensorShape([2]))
    assert not variable.is_initialized
    assert variable.value_shape == (2,)
    for use in (variable.read, variable.mutable):
        with pytest.raises(FailedPreconditionError, match="Attempting to use uninitialized value v"):
            use()
    variable.assign(np.zeros(2, np.float32))
    variable.destroy()
    with pytest.raises(FailedPreconditionError):
        variable.read()


def test_assign_copies_and_reuses_its_memory() -> None:
    given = np.arange(3, dtype=np.float32)
    variable = _variable(given)
    given[0] = 9
    assert variable.read().tolist() == [0, 1, 2]
    before = _address(variable)
    variable.assign(np.ones(3, np.float32))
    assert _address(variable) == before
    assert variable.copies == 0


def test_what_was_read_outlives_writes() -> None:
    variable = _variable(np.arange(3, dtype=np.float32))
    read = variable.read()
    part = read[1:]
    buffer = memoryview(read)
    variable.mutable()[:] = 7
    assert read.tolist() == [0, 1, 2]
    assert variable.copies == 1
    variable.assign(np.full(3, 8, np.float32))
    assert part.tolist() == [1, 2]
    assert bytes(buffer) == np.arange(3, dtype=np.float32).tobytes()


@pytest.mark.parametrize("hold", [lambda a: a, lambda a: a[1:], lambda a: a.reshape(3, 1).T, memoryview])
def test_every_way_to_hold_a_read_is_seen(hold: Any) -> None:
    variable = _variable(np.arange(3, dtype=np.float32))
    held = hold(variable.read())
    assert variable.is_lent()
    variable.mutable()
    assert variable.copies == 1
    del held
    assert not variable.is_lent()


def test_in_place_however_often() -> None:
    """Past the point where the interpreter specialises the methods, from functions and from loops."""
    variable = _variable(np.zeros(4, np.float32))

    def step() -> None:
        target = variable.mutable()
        target += 1

    for _ in range(200):
        step()
        np.add(variable.mutable(), 1, variable.mutable())
        assert variable.read().sum() >= 0
    assert variable.read().tolist() == [400.0] * 4
    assert variable.copies == 200, "only the statement that holds one result while asking again copies"


def test_scalar_reads_lend_nothing() -> None:
    variable = _variable(np.float32(1))
    read = variable.read()
    assert type(read) is np.float32
    variable.mutable()[...] = 2
    assert read == 1
    assert variable.read() == 2
    assert variable.copies == 0


def test_strings() -> None:
    scalar = _variable(b"a\0", dtypes.string)
    assert scalar.read() == b"a\0"
    vector = _variable(np.array([b"a", b"bc\0"], dtype=object), dtypes.string)
    assert vector.read().tolist() == [b"a", b"bc\0"]


def test_variant_holds_any_object() -> None:
    variable = Variable("v", dtypes.variant, UNKNOWN_SHAPE)
    value = [np.zeros(2), np.zeros(3)]
    variable.assign(value, validate_shape=False)
    assert variable.read() is value
    several = np.empty(2, dtype=object)
    several[:] = [value, None]
    variable.assign(several, validate_shape=False)
    assert variable.read().tolist() == [value, None]


def test_shapes_of_assign() -> None:
    variable = Variable("v", dtypes.float32, TensorShape([None]))
    with pytest.raises(InvalidArgumentError, match=r"Assign requires shapes.*\[\?\].*\[1, 2\]"):
        variable.assign(np.zeros((1, 2), np.float32))
    variable.assign(np.zeros(2, np.float32))
    with pytest.raises(InvalidArgumentError, match=r"\[2\].*\[3\]"):
        variable.assign(np.zeros(3, np.float32))
    variable.assign(np.zeros((3, 3), np.float32), validate_shape=False)
    assert variable.value_shape == (3, 3)


def test_parking_in_order_of_arrival() -> None:
    variable = _variable(np.zeros(1, np.float32))
    calls: list[str] = []
    assert variable.acquire("writer")
    assert not variable.acquire("other")

    def take() -> None:
        calls.append("take")
        assert variable.acquire("second")

    def look() -> None:
        calls.append("look")

    def never() -> None:
        calls.append("never")

    variable.wait_free(look)
    variable.wait_free(never)
    variable.wait_free(take)
    variable.wait_free(look)
    variable.forget(never)
    variable.release()
    assert calls == ["look", "take"]
    assert variable.writer == "second"
    variable.release()
    assert calls == ["look", "take", "look"]
    assert variable.writer is None


class Lending(RuleBasedStateMachine):
    """Reads, views, writes and assignments in any order: every read keeps the value that it saw."""

    @initialize()
    def make(self) -> None:
        self.variable = _variable(np.zeros((2, 3), np.int32), dtypes.int32)
        self.expected = np.zeros((2, 3), np.int32)
        self.reads: list[tuple[Any, Any]] = []

    @rule()
    def read(self) -> None:
        value = self.variable.read()
        self.reads.append((value, value.copy()))

    @rule(row=st.integers(0, 1))
    def read_row(self, row: int) -> None:
        value = self.variable.read()[row]
        self.reads.append((value, value.copy()))

    @rule(row=st.integers(0, 1), number=st.integers(-5, 5))
    def write(self, row: int, number: int) -> None:
        lent = bool(self.reads) and self.variable.is_lent()
        copies = self.variable.copies
        target = self.variable.mutable()
        target[row] += number
        self.expected[row] += number
        assert self.variable.copies == copies + lent

    @rule(number=st.integers(-5, 5))
    def assign(self, number: int) -> None:
        self.variable.assign(np.full((2, 3), number, np.int32))
        self.expected[...] = number

    @rule()
    def assign_itself(self) -> None:
        self.variable.assign(self.variable.read())

    @rule(which=st.integers(0, 100))
    def drop(self, which: int) -> None:
        if self.reads:
            self.reads.pop(which % len(self.reads))

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "variable"):
            return
        for value, saw in self.reads:
            np.testing.assert_array_equal(value, saw)
        np.testing.assert_array_equal(self.variable.read(), self.expected)
        if not self.reads:
            assert not self.variable.is_lent()


TestLending = Lending.TestCase
TestLending.settings = settings(max_examples=examples(200), stateful_step_count=50)
