"""Lookup tables: from keys to values, filled once or changed at will.

All of them are dictionaries. Keys and values are kept as plain Python objects where they are scalars, so
that a lookup of n keys is n dictionary lookups and one conversion; keys that are vectors are kept as
tuples, values that are tensors as arrays of their own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

import numpy as np

from flowengine.core.accounting import Account
from flowengine.core.arrays import Array, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError

#: Of a key that a table has not.
_ABSENT: Final = object()
#: What a dictionary takes for an entry, about.
_ENTRY_BYTES: Final = 48
#: So many entries of a file are read between two looks at what there is room for.
_ENTRIES_PER_CHECK: Final = 256


class Table:
    """The base of all tables.

    key_dtype, value_dtype   base types
    key_shape, value_shape   of one key and of one value; () for scalars
    account                  set by the resource manager: where entries are booked; of an insert that it
                             refuses, nothing is inserted
    """

    kind: ClassVar[str] = "Table"
    __slots__ = (
        "__weakref__",
        "_bytes",
        "_entries",
        "account",
        "container",
        "key_dtype",
        "key_shape",
        "name",
        "value_dtype",
        "value_shape",
    )

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        *,
        key_shape: tuple[int, ...] = (),
        value_shape: tuple[int, ...] = (),
        container: str = "",
    ) -> None:
        self.name = name
        self.container = container
        self.key_dtype = key_dtype.base
        self.value_dtype = value_dtype.base
        self.key_shape = key_shape
        self.value_shape = value_shape
        self._entries: dict[Any, Any] = {}
        self.account: Account | None = None
        #: What the entries take, where there is an account.
        self._bytes = 0

    @property
    def size(self) -> int:
        return len(self._entries)

    def find(self, keys: Any, default: Any) -> Array:
        """The value of each key (..., *key_shape), or `default` (value_shape): (..., *value_shape)."""
        keys = to_array(keys)
        default = to_array(default)
        if default.shape != self.value_shape:
            raise InvalidArgumentError(
                f"Expected shape {list(self.value_shape)} for default value, got {list(default.shape)}"
            )
        shape = self._batch_shape(keys)
        get = self._entries.get
        absent = default.tolist() if not self.value_shape else default
        found = [get(key, absent) for key in self._key_list(keys)]
        return self._value_array(found, shape)

    def insert(self, keys: Any, values: Any) -> None:
        """Set the values of keys, in order; the last of several for one key stays."""
        self._set(self._pairs(keys, values))

    def remove(self, keys: Any) -> None:
        """Forget keys; those that are not there do not matter."""
        keys = to_array(keys)
        self._batch_shape(keys)
        pop = self._entries.pop
        gone = [(key, value) for key in self._key_list(keys) if (value := pop(key, _ABSENT)) is not _ABSENT]
        if self.account is not None:
            self._book(-sum(map(_pair_bytes, gone)))

    def replace(self, keys: Any, values: Any) -> None:
        """Forget everything, then `insert`."""
        self._reset(dict(self._pairs(keys, values)))

    def _set(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Set entries."""
        entries, account = self._entries, self.account
        if account is None:
            entries.update(pairs)
            return
        new = dict(pairs)
        old = sum(_pair_bytes((key, entries[key])) for key in new if key in entries)
        growth = sum(map(_pair_bytes, new.items())) - old
        account.check(growth + _ENTRY_BYTES * len(new))
        entries.update(new)
        self._book(growth)

    def _reset(self, entries: dict[Any, Any]) -> None:
        """Have these entries instead."""
        growth = 0
        if self.account is not None:
            growth = sum(map(_pair_bytes, entries.items())) - self._bytes
            self.account.check(growth + sys.getsizeof(entries))
        self._entries = entries
        self._book(growth)

    def _book(self, growth: int) -> None:
        if self.account is not None:
            self._bytes += growth
            self.account.book(self, self._bytes + sys.getsizeof(self._entries), self.name)

    def export(self) -> tuple[Array, Array]:
        """All keys (n, *key_shape) and their values (n, *value_shape), in order of insertion."""
        count = len(self._entries)
        keys = np.empty((count, *self.key_shape), dtype=self.key_dtype.as_numpy_dtype)
        for index, key in enumerate(self._entries):
            keys[index] = key if not self.key_shape else np.reshape(key, self.key_shape)
        return keys, self._value_array(list(self._entries.values()), (count,))

    def check_types(self, key_dtype: DType, value_dtype: DType | None) -> None:
        """InvalidArgumentError where a node works on other types than the table."""
        if key_dtype.base is not self.key_dtype:
            raise InvalidArgumentError(f"Key must be type {self.key_dtype} but got {key_dtype}")
        if value_dtype is not None and value_dtype.base is not self.value_dtype:
            raise InvalidArgumentError(f"Value must be type {self.value_dtype} but got {value_dtype}")

    def destroy(self) -> None:
        self._reset({})

    def _batch_shape(self, keys: Array) -> tuple[int, ...]:
        rank = len(self.key_shape)
        if rank == 0:
            return keys.shape
        if keys.ndim < rank or keys.shape[keys.ndim - rank :] != self.key_shape:
            raise InvalidArgumentError(
                f"Input key shape must end with the table's key shape {list(self.key_shape)}, "
                f"got {list(keys.shape)}"
            )
        return keys.shape[: keys.ndim - rank]

    def _key_list(self, keys: Array) -> list[Any]:
        if not self.key_shape:
            flat: list[Any] = keys.reshape(-1).tolist()
            return flat
        width = int(np.multiply.reduce(self.key_shape))
        return [tuple(key) for key in keys.reshape((keys.size // width, width)).tolist()]

    def _pairs(self, keys: Any, values: Any) -> Iterator[tuple[Any, Any]]:
        keys = to_array(keys)
        values = to_array(values)
        shape = self._batch_shape(keys)
        if values.shape != shape + self.value_shape:
            raise InvalidArgumentError(
                f"Expected shape {list(shape + self.value_shape)} for value, got {list(values.shape)}"
            )
        items: Iterable[Any]
        if self.value_shape:
            count = int(np.multiply.reduce(shape, dtype=np.int64))
            items = [row.copy() for row in values.reshape((count, *self.value_shape))]
        else:
            items = values.reshape(-1).tolist()
        return zip(self._key_list(keys), items, strict=True)

    def _value_array(self, values: list[Any], shape: tuple[int, ...]) -> Array:
        dtype = self.value_dtype.as_numpy_dtype
        result = np.empty((len(values), *self.value_shape), dtype=dtype)
        if values and self.value_shape:
            for index, value in enumerate(values):
                result[index] = value
        elif values:
            result[:] = values
        return result.reshape(shape + self.value_shape)

    def read(self) -> Array:
        """Return the value of a reference handle to a table: container and name (string vector)."""
        handle = np.empty(2, dtype=object)
        handle[:] = [self.container.encode(), self.name.encode()]
        return handle

    def __repr__(self) -> str:
        return f"<{self.kind} '{self.name}' {self.key_dtype}->{self.value_dtype} {self.size} entries>"


class HashTable(Table):
    """Filled once; scalars to scalars."""

    kind = "HashTable"
    __slots__ = ("is_initialized",)

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType, *, container: str = "") -> None:
        super().__init__(name, key_dtype, value_dtype, container=container)
        self.is_initialized = False

    @property
    def size(self) -> int:
        self._require_initialized()
        return len(self._entries)

    def initialize(self, pairs: Iterable[tuple[Any, Any]], count: int | None = None) -> None:
        """Fill the table. Again with as many entries is nothing; with others FailedPreconditionError.

        Raises it too where a key comes with two values; the table stays as it was.
        """
        if self.is_initialized:
            if count is None:
                count = sum(1 for _ in pairs)
            if count != len(self._entries):
                raise FailedPreconditionError(
                    f"Table '{self.name}' was already initialized with different data."
                )
            return
        entries: dict[Any, Any] = {}
        account, size = self.account, 0
        for key, value in pairs:
            before = entries.setdefault(key, value)
            if account is not None:
                size += _pair_bytes((key, value)) + _ENTRY_BYTES
                if not len(entries) % _ENTRIES_PER_CHECK:
                    account.check(size)  # a file may have no end
            if before != value:
                raise FailedPreconditionError(
                    f"HashTable '{self.name}' has different value for same key. Key {key!r} has {before!r} "
                    f"and trying to add value {value!r}"
                )
        self._reset(entries)
        self.is_initialized = True

    def initialize_from(self, keys: Any, values: Any) -> None:
        """`initialize` from two tensors of one shape."""
        keys = to_array(keys)
        if not keys.size:
            raise InvalidArgumentError(f"keys and values cannot be empty tensors (HashTable '{self.name}')")
        self.initialize(self._pairs(keys, values), keys.size)

    def find(self, keys: Any, default: Any) -> Array:
        """See `Table.find`; FailedPreconditionError before the table is filled."""
        self._require_initialized()
        return super().find(keys, default)

    def insert(self, keys: Any, values: Any) -> None:
        raise UnimplementedError(
            f"Insert not supported by HashTable '{self.name}': only its initializer fills it"
        )

    def remove(self, keys: Any) -> None:
        raise UnimplementedError(
            f"Remove not supported by HashTable '{self.name}': only its initializer fills it"
        )

    def replace(self, keys: Any, values: Any) -> None:
        self.initialize_from(keys, values)

    def export(self) -> tuple[Array, Array]:
        """See `Table.export`; FailedPreconditionError before the table is filled."""
        self._require_initialized()
        return super().export()

    def destroy(self) -> None:
        super().destroy()
        self.is_initialized = False

    def _require_initialized(self) -> None:
        if not self.is_initialized:
            raise FailedPreconditionError(
                f"table '{self.name}' is not filled: call session.initialize(), or run its initializer. "
                f"Table not initialized: HashTable '{self.name}'"
            )


class MutableHashTable(Table):
    """Changed at will; scalars to scalars, or to vectors of one length."""

    kind = "MutableHashTable"
    __slots__ = ()


class DenseHashTable(Table):
    """Changed at will; keys and values of any one shape. Two keys are reserved and cannot be used.

    What it exports has a row a bucket, as TensorFlow's checkpoints of such tables have: the entries
    first, then rows of the empty key. The number of buckets doubles as the table fills.

    empty_key, deleted_key   those that are reserved; None where there is no second one
    """

    kind = "MutableDenseHashTable"
    __slots__ = ("_reserved", "buckets", "deleted_key", "empty_key", "max_load_factor")

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        *,
        empty_key: Any,
        deleted_key: Any,
        value_shape: tuple[int, ...] = (),
        buckets: int = 4,
        max_load_factor: float = 0.8,
        container: str = "",
    ) -> None:
        empty = to_array(empty_key)
        if empty.ndim > 1:
            raise InvalidArgumentError(
                f"Empty key must be a scalar or a vector, got shape {list(empty.shape)}"
            )
        super().__init__(
            name,
            key_dtype,
            value_dtype,
            key_shape=empty.shape,
            value_shape=value_shape,
            container=container,
        )
        self.empty_key = empty.copy()
        self.deleted_key: Array | None = None
        self.buckets = buckets
        self.max_load_factor = max_load_factor
        #: {key: what it stands for}
        self._reserved: dict[Any, str] = {self._key_list(empty)[0]: "empty_key"}
        if deleted_key is not None:
            deleted = to_array(deleted_key)
            if deleted.shape != empty.shape:
                raise InvalidArgumentError(
                    "Empty and deleted keys must have same shape, got shapes: "
                    f"{list(empty.shape)} and {list(deleted.shape)}"
                )
            key = Table._key_list(self, deleted)[0]
            if key in self._reserved:
                raise InvalidArgumentError("Empty and deleted keys cannot be equal")
            self._reserved[key] = "deleted_key"
            self.deleted_key = deleted.copy()

    def insert(self, keys: Any, values: Any) -> None:
        """See `Table.insert`; InvalidArgumentError for a reserved key."""
        pairs = list(self._pairs(keys, values))
        count = len(self._entries) + len(pairs)
        self._set(pairs)
        self._grow(count)

    def replace(self, keys: Any, values: Any) -> None:
        """Take over what another table exported: rows of reserved keys are no entries."""
        keys, values = to_array(keys), to_array(values)
        if keys.ndim and values.ndim and keys.shape[0] == values.shape[0]:
            rows = len(keys)
            if keys[0:1].size == self._key_width and values[0:1].size == self._value_width:
                keys = keys.reshape((rows, *self.key_shape))
                values = values.reshape((rows, *self.value_shape))
        reserved, self._reserved = self._reserved, {}
        try:
            pairs = list(self._pairs(keys, values))
        finally:
            self._reserved = reserved
        self._reset({key: value for key, value in pairs if key not in reserved})
        self.buckets = max(len(pairs), 1)
        self._grow(len(self._entries))

    def _grow(self, count: int) -> None:
        while count > self.buckets * self.max_load_factor:
            self.buckets *= 2

    def export(self) -> tuple[Array, Array]:
        """Keys and values, a flat row a bucket; see the class."""
        keys, values = super().export()
        rest = self.buckets - len(keys)
        empty = np.broadcast_to(self.empty_key, (rest, *self.key_shape))
        if self.value_dtype.as_numpy_dtype.hasobject:
            nothing = np.full((rest, *self.value_shape), b"", dtype=object)
        else:
            nothing = np.zeros((rest, *self.value_shape), dtype=values.dtype)
        return (
            np.concatenate([keys, empty]).reshape((self.buckets, self._key_width)),
            np.concatenate([values, nothing]).reshape((self.buckets, self._value_width)),
        )

    @property
    def _key_width(self) -> int:
        return math.prod(self.key_shape)

    @property
    def _value_width(self) -> int:
        return math.prod(self.value_shape)

    def _key_list(self, keys: Array) -> list[Any]:
        listed = super()._key_list(keys)
        for key in getattr(self, "_reserved", ()):
            if key in listed:
                raise InvalidArgumentError(
                    f"Using the {self._reserved[key]} as a table key is not allowed: {key!r}"
                )
        return listed


def _pair_bytes(pair: tuple[Any, Any]) -> int:
    """Return the bytes of key and value, without their places in the dictionary."""
    return _object_bytes(pair[0]) + _object_bytes(pair[1])


def _object_bytes(value: Any) -> int:
    size = sys.getsizeof(value)
    return size + sum(map(_object_bytes, value)) if isinstance(value, tuple) else size
