"""The features of one example as arrays, and what every op that parses examples shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape

#: {type: (the field of a Feature that holds it, its name there)}
_KINDS: Final = {
    dtypes.string: "bytes_list",
    dtypes.float32: "float_list",
    dtypes.int64: "int64_list",
}


def key_of(value: Value, what: str) -> str:
    """A feature's name, from a rank-0 string."""
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"Expected {what} to be a scalar, got shape: {list(array.shape)}")
    return decoded_key(array.item())


def decoded_key(key: bytes) -> str:
    """A feature's name as the map of an example has it; one that is not UTF-8 is in none."""
    return key.decode("utf-8", "backslashreplace")


def parsed(message: Any, data: bytes, where: str) -> Any:
    """The message that these bytes are; InvalidArgumentError where they are none."""
    try:
        message.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, which is not worth importing for
        raise InvalidArgumentError(
            f"{where}Could not parse {type(message).__name__} input, {len(data)} bytes: {error}"
        ) from error
    return message


def string_array(values: Sequence[bytes]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def values_of(feature: Any, dtype: DType, where: str) -> Any | None:
    """The repeated field with a feature's values, None for a feature without any kind.

    Raises InvalidArgumentError where it holds another type.
    """
    kind = feature.WhichOneof("kind")
    wanted = _KINDS[dtype]
    if kind == wanted:
        return getattr(feature, kind).value
    if kind is None:
        return None
    raise InvalidArgumentError(
        f"{where}Data types don't match. Data type: {kind.removesuffix('_list')} but expected type: {dtype}"
    )


def to_values(values: Any, dtype: DType) -> Array:
    """A repeated field, or a list, as an array of rank 1."""
    if dtype is dtypes.string:
        return string_array(values)
    return np.array(values, dtype.as_numpy_dtype)


@dataclass(frozen=True, slots=True)
class Dense:
    """A feature that every example has, or a default in its place.

    shape      of one example's values; its first dimension is unknown where it varies
    default    of the shape, without elements where the feature is required; where the first dimension
               varies, one element that fills the rows up
    """

    key: str
    dtype: DType
    shape: TensorShape
    default: Array

    @property
    def varies(self) -> bool:
        dims = self.shape.dims
        return bool(dims) and dims is not None and dims[0] is None

    @property
    def stride(self) -> int:
        """Elements of one row where the length varies, else of all."""
        dims = self.shape.dims or ()
        count = 1
        for size in dims[1:] if self.varies else dims:
            count *= size or 0
        return count

    @property
    def sizes(self) -> tuple[int, ...]:
        """The dimensions that are known."""
        dims = self.shape.dims or ()
        return tuple(size or 0 for size in (dims[1:] if self.varies else dims))

    def check(self) -> Dense:
        """Itself; InvalidArgumentError where shape and default do not belong together."""
        dims = self.shape.dims
        if dims is None or any(size is None for size in dims[1:]):
            raise InvalidArgumentError(
                f"dense_shapes of '{self.key}' is {self.shape}: all but the first dimension must be known"
            )
        if self.varies:
            if self.stride == 0:
                raise InvalidArgumentError(f"dense_shapes of '{self.key}' has empty rows: {self.shape}")
            if self.default.size > 1:
                raise InvalidArgumentError(
                    f"dense_shape[{self.key}] is a variable length shape: {self.shape}, therefore its "
                    f"default must contain a single element (the padding), not {self.default.size}"
                )
        elif self.default.size and self.default.shape != self.sizes:
            raise InvalidArgumentError(
                f"the default of '{self.key}' has shape {list(self.default.shape)}, expected {self.shape}"
            )
        return self

    def read(self, feature: Any | None, where: str) -> Array | None:
        """One example's values as rank 1, None where it has none and may have none."""
        values = None if feature is None else values_of(feature, self.dtype, where)
        if values is None:
            if not self.varies and not self.default.size and self.stride:
                raise InvalidArgumentError(
                    f"{where}Feature: {self.key} (data type: {self.dtype}) is required but not found."
                )
            return None
        if len(values) % self.stride if self.varies else len(values) != self.stride:
            raise InvalidArgumentError(
                f"{where}Number of {self.dtype} values != expected. Values size: {len(values)} but output "
                f"shape: {self.shape}"
            )
        return to_values(values, self.dtype)

    def filled(self, shape: tuple[int, ...]) -> Array:
        """An array of what stands for values that are missing."""
        if self.default.size == 1:
            return np.full(shape, self.default.reshape(-1)[0], self.dtype.as_numpy_dtype)
        return np.full(shape, b"" if self.dtype is dtypes.string else 0, self.dtype.as_numpy_dtype)


def empty(dtype: DType) -> Array:
    return np.empty(0, dtype.as_numpy_dtype)


def batch_of_sparse(rows: Sequence[Any | None], dtype: DType) -> tuple[Array, Array, Array]:
    """Indices (int64 [n, 2]), values ([n]) and shape (int64 [2]) of repeated fields, one a row."""
    lengths = np.array([0 if row is None else len(row) for row in rows], np.int64)
    total = int(lengths.sum())
    indices = np.empty((total, 2), np.int64)
    indices[:, 0] = np.arange(len(rows)).repeat(lengths)
    indices[:, 1] = np.arange(total) - (lengths.cumsum() - lengths).repeat(lengths)
    merged: list[Any] = []
    for row in rows:
        if row is not None:
            merged.extend(row)
    shape = np.array([len(rows), int(lengths.max()) if len(rows) else 0], np.int64)
    return indices, to_values(merged, dtype), shape
