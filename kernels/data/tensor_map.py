"""TensorMap: tensors by key, a value that flows along an edge as one variant. Inserting makes another map."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, describe, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel


class TensorMap:
    """An immutable map from tensors to tensors."""

    __slots__ = ("_entries",)

    def __init__(self, entries: dict[Any, tuple[Value, Value]] | None = None) -> None:
        #: {hashable form of a key: (key, value)}
        self._entries = entries or {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Value) -> bool:
        return _identity(key) in self._entries

    def held_values(self) -> list[Value]:
        """Keys and values: `accounting.Composite`."""
        return [part for entry in self._entries.values() for part in entry]

    def all_keys(self) -> list[Value]:
        """The keys, in the order of their insertion."""
        return [key for key, _ in self._entries.values()]

    def lookup(self, key: Value) -> Value:
        """The value of a key; InvalidArgumentError where there is none."""
        found = self._entries.get(_identity(key))
        if found is None:
            raise InvalidArgumentError(f"Trying to lookup non-existent key. Could not find key {key!r}.")
        return found[1]

    def with_entry(self, key: Value, value: Value) -> TensorMap:
        """Another map, in which the key has this value."""
        return TensorMap({**self._entries, _identity(key): (key, value)})

    def without(self, key: Value) -> TensorMap:
        """Another map, without the key; InvalidArgumentError where it is not there."""
        identity = _identity(key)
        if identity not in self._entries:
            raise InvalidArgumentError(f"Trying to erase non-existent item. Could not find key {key!r}.")
        return TensorMap({name: entry for name, entry in self._entries.items() if name != identity})


def _identity(key: Value) -> Any:
    array = to_array(key)
    content = tuple(array.reshape(-1).tolist()) if array.dtype.hasobject else array.tobytes()
    return array.dtype.str, array.shape, content


def _map_in(handle: Any) -> TensorMap:
    if isinstance(handle, np.ndarray) and not handle.shape and handle.dtype.hasobject:
        handle = handle.item()
    if isinstance(handle, TensorMap):
        return handle
    raise InvalidArgumentError(f"Input handle is not a map of tensors but {describe(handle)}")


@kernel("EmptyTensorMap", heavy=False)
def empty_tensor_map() -> TensorMap:
    """A map without keys."""
    return TensorMap()


@kernel("TensorMapSize", heavy=False)
def tensor_map_size(handle: Value) -> Any:
    """How many keys there are (int32, rank 0)."""
    return np.int32(len(_map_in(handle)))


@kernel("TensorMapInsert", heavy=False)
def tensor_map_insert(handle: Value, key: Value, value: Value) -> TensorMap:
    """The map with a key's value set."""
    return _map_in(handle).with_entry(key, value)


@kernel("TensorMapErase", heavy=False)
def tensor_map_erase(handle: Value, key: Value) -> TensorMap:
    """The map without a key."""
    return _map_in(handle).without(key)


@kernel("TensorMapHasKey", heavy=False)
def tensor_map_has_key(handle: Value, key: Value) -> Any:
    """Whether the map has a key (bool, rank 0)."""
    return np.bool_(key in _map_in(handle))


@kernel("TensorMapLookup", heavy=False)
def tensor_map_lookup(handle: Value, key: Value, *, value_dtype: DType) -> Value:
    """The value of a key."""
    value = _map_in(handle).lookup(key)
    if to_array(value).dtype != value_dtype.as_numpy_dtype:
        raise InvalidArgumentError(f"the value is not of type {value_dtype} but {describe(value)}")
    return value


@kernel("TensorMapStackKeys")
def tensor_map_stack_keys(handle: Value, *, key_dtype: DType) -> Array:
    """(n, ...): all keys, of one shape, one below another."""
    keys = [to_array(key) for key in _map_in(handle).all_keys()]
    if not keys:
        raise InvalidArgumentError("TensorMapStackKeys cannot be called on empty map.")
    for key in keys:
        if key.dtype != key_dtype.as_numpy_dtype or key.shape != keys[0].shape:
            raise InvalidArgumentError(
                f"Key does not match requested dtype {key_dtype} and shape {brackets(keys[0].shape)}: "
                f"{describe(key)}"
            )
    return np.stack(keys)
