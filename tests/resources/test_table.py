"""Tables against dictionaries, and what each kind refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flowengine.core import dtypes
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from flowengine.resources.table import DenseHashTable, HashTable, MutableHashTable, Table
from tests.effort import examples

_KEYS = st.lists(st.integers(0, 9), max_size=6)


class Mutable(RuleBasedStateMachine):
    """Insert, remove, import and look up in any order, from int64 to string."""

    def make(self) -> Table:
        return MutableHashTable("t", dtypes.int64, dtypes.string)

    @initialize()
    def start(self) -> None:
        self.table = self.make()
        self.model: dict[int, bytes] = {}

    @rule(keys=_KEYS, start=st.integers(0, 99))
    def insert(self, keys: list[int], start: int) -> None:
        values = [b"%d" % (start + i) for i in range(len(keys))]
        self.table.insert(np.array(keys, np.int64), np.array(values, object))
        self.model.update(zip(keys, values, strict=True))

    @rule(keys=_KEYS)
    def remove(self, keys: list[int]) -> None:
        self.table.remove(np.array(keys, np.int64))
        for key in keys:
            self.model.pop(key, None)

    @rule(keys=_KEYS)
    def replace(self, keys: list[int]) -> None:
        values = [b"r%d" % key for key in keys]
        self.table.replace(np.array(keys, np.int64), np.array(values, object))
        self.model = dict(zip(keys, values, strict=True))

    @rule()
    def export_and_import(self) -> None:
        other = self.make()
        other.replace(*self.table.export())
        self.table = other

    @rule(rows=st.integers(0, 3), data=st.data())
    def find(self, rows: int, data: st.DataObject) -> None:
        keys = np.array(
            data.draw(st.lists(st.integers(0, 9), min_size=2 * rows, max_size=2 * rows)), np.int64
        )
        found = self.table.find(keys.reshape(rows, 2), b"?")
        assert found.shape == (rows, 2)
        assert found.reshape(-1).tolist() == [self.model.get(key, b"?") for key in keys.tolist()]

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "table"):
            assert self.table.size == len(self.model)


class Dense(Mutable):
    def make(self) -> Table:
        return DenseHashTable(
            "t", dtypes.int64, dtypes.string, empty_key=np.int64(-1), deleted_key=np.int64(-2)
        )


TestMutable = Mutable.TestCase
TestDense = Dense.TestCase
for _case in (TestMutable, TestDense):
    _case.settings = settings(max_examples=examples(200), stateful_step_count=50)
del _case  # else collected once more


def _table() -> HashTable:
    return HashTable("t", dtypes.string, dtypes.int64)


def _strings(*values: bytes) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def test_filled_once() -> None:
    table = _table()
    uses: list[Callable[[], object]] = [
        lambda: table.find(b"a", np.int64(-1)),
        table.export,
        lambda: table.size,
    ]
    for use in uses:
        with pytest.raises(FailedPreconditionError, match="not initialized"):
            use()
    table.initialize_from(_strings(b"a", b"b\0"), np.array([1, 2]))
    assert table.find(_strings(b"b\0", b"c", b"a"), np.int64(-1)).tolist() == [2, -1, 1]
    assert table.find(b"a", np.int64(-1)) == 1
    table.initialize_from(_strings(b"a", b"b\0"), np.array([1, 2]))
    with pytest.raises(FailedPreconditionError, match="already initialized with different data"):
        table.initialize_from(_strings(b"a"), np.array([1]))
    changes: list[Callable[[], object]] = [
        lambda: table.insert(_strings(b"x"), np.array([1])),
        lambda: table.remove(_strings(b"x")),
    ]
    for change in changes:
        with pytest.raises(UnimplementedError):
            change()


def test_two_values_for_one_key() -> None:
    table = _table()
    with pytest.raises(FailedPreconditionError, match="different value for same key"):
        table.initialize_from(_strings(b"a", b"a"), np.array([1, 2]))
    assert not table.is_initialized
    with pytest.raises(InvalidArgumentError, match="cannot be empty"):
        table.initialize_from(_strings(), np.array([], np.int64))


def test_checks() -> None:
    table = MutableHashTable("t", dtypes.int64, dtypes.float32, value_shape=(2,))
    with pytest.raises(InvalidArgumentError, match=r"Expected shape \[2\] for default value, got \[\]"):
        table.find(np.array([1]), np.float32(0))
    with pytest.raises(InvalidArgumentError, match=r"Expected shape \[1, 2\] for value, got \[1\]"):
        table.insert(np.array([1]), np.zeros(1, np.float32))
    with pytest.raises(InvalidArgumentError, match="Key must be type int64 but got int32"):
        table.check_types(dtypes.int32, None)
    with pytest.raises(InvalidArgumentError, match="Value must be type float32 but got int32"):
        table.check_types(dtypes.int64, dtypes.int32)


def test_vector_values_are_the_tables_own() -> None:
    table = MutableHashTable("t", dtypes.int64, dtypes.float32, value_shape=(2,))
    given = np.ones((1, 2), np.float32)
    table.insert(np.array([5]), given)
    given[...] = 9
    assert table.find(np.array([[5], [6]]), np.zeros(2, np.float32)).tolist() == [[[1, 1]], [[0, 0]]]


def test_vector_keys_and_reserved_ones() -> None:
    table = DenseHashTable(
        "t",
        dtypes.int64,
        dtypes.int64,
        empty_key=np.array([0, 0]),
        deleted_key=np.array([-1, 0]),
    )
    table.insert(np.array([[1, 2], [3, 4]]), np.array([10, 20]))
    assert table.find(np.array([[3, 4], [5, 6]]), np.int64(-7)).tolist() == [20, -7]
    with pytest.raises(InvalidArgumentError, match="empty_key as a table key"):
        table.find(np.array([[0, 0]]), np.int64(0))
    with pytest.raises(InvalidArgumentError, match="deleted_key as a table key"):
        table.insert(np.array([[-1, 0]]), np.array([1]))
    with pytest.raises(InvalidArgumentError, match="must end with the table's key shape"):
        table.find(np.array([1, 2, 3]), np.int64(0))
    with pytest.raises(InvalidArgumentError, match="cannot be equal"):
        DenseHashTable("t", dtypes.int64, dtypes.int64, empty_key=np.int64(1), deleted_key=np.int64(1))


def test_dense_export_has_a_row_a_bucket() -> None:
    table = DenseHashTable(
        "t", dtypes.int64, dtypes.int64, empty_key=np.int64(0), deleted_key=np.int64(-1), buckets=4
    )
    table.insert(np.array([11, 12, 13]), np.array([1, 2, 3]))
    assert table.export()[0].tolist() == [[11], [12], [13], [0]]
    table.insert(np.array([14]), np.array([4]))
    keys, values = table.export()
    assert keys.shape == values.shape == (8, 1)
    again = DenseHashTable("t", dtypes.int64, dtypes.int64, empty_key=np.int64(0), deleted_key=np.int64(-1))
    for number in (5, 6, 7):
        table.insert(np.array([10 * number]), np.array([number]))
    table.remove(np.array([11, 12, 13, 14, 50]))
    again.replace(*table.export())
    assert [each.tolist() for each in again.export()] == [each.tolist() for each in table.export()]


def test_a_removed_table_is_not_initialized_any_more() -> None:
    table = _table()
    table.initialize_from(_strings(b"a"), np.array([1]))
    table.destroy()
    with pytest.raises(FailedPreconditionError, match="not initialized"):
        table.find(b"a", np.int64(-1))
    table.initialize_from(_strings(b"a", b"b"), np.array([3, 4]))
    assert table.find(b"a", np.int64(-1)) == 3
