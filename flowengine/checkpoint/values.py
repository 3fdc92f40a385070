"""The elements of a TensorProto as checkpoints of format V1 hold them: one field for each kind of number."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.ir.wire import BYTES, bytes_field, decode_varints, encode_varints, fields

_STRINGS: Final = 8
#: Fields of numbers that are stored as they are in memory.
_RAW: Final = {
    dtypes.float32: (5, "<f4"),
    dtypes.float64: (6, "<f8"),
    dtypes.complex64: (9, "<c8"),
    dtypes.complex128: (12, "<c16"),
}
_INT: Final = 7
#: Fields of integers of variable length, beside the one for all small ones.
_INTEGERS: Final = {
    dtypes.int64: 10,
    dtypes.bool_: 11,
    dtypes.float16: 13,
    dtypes.bfloat16: 13,
    dtypes.uint32: 16,
    dtypes.uint64: 17,
}


def is_storable(dtype: DType) -> bool:
    return (bool(dtype.size) and dtype not in dtypes.STORAGE) or dtype is dtypes.string


def encode_values(array: Array, dtype: DType) -> bytes:
    """The elements, row by row, as a TensorProto without type and shape; nothing for no elements."""
    if not array.size:
        return b""
    if dtype is dtypes.string:
        return b"".join(bytes_field(_STRINGS, string) for string in array.flat)
    if dtype in _RAW:
        number, layout = _RAW[dtype]
        return bytes_field(number, np.ascontiguousarray(array, dtype=layout).tobytes())
    return bytes_field(_INTEGERS.get(dtype, _INT), encode_varints(_as_unsigned(array)))


def _as_unsigned(array: Array) -> Array:
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.itemsize == 2 and flat.dtype.kind in "fV":
        return flat.view(np.uint16).astype(np.uint64)
    if flat.dtype.kind in "ub":
        return flat.astype(np.uint64)
    return flat.astype(np.int64).view(np.uint64)


def decode_values(data: Any, dtype: DType, count: int) -> Array:
    """The `count` elements in a TensorProto, as an array of rank 1.

    A single stored element stands for any number of equal ones. ValueError where the bytes do not fit.
    """
    if dtype is dtypes.string:
        strings = [bytes(value) for number, _, value in fields(data) if number == _STRINGS]
        found: Array = np.empty(len(strings), dtype=object)
        found[:] = strings
    elif dtype in _RAW:
        wanted, layout = _RAW[dtype]
        found = np.frombuffer(_packed(data, wanted, np.dtype(layout)), layout).astype(dtype.as_numpy_dtype)
    else:
        parts = [np.zeros(0, np.uint64)]
        for number, kind, value in fields(data):
            if number == _INTEGERS.get(dtype, _INT):
                parts.append(
                    decode_varints(value)[0] if kind == BYTES else np.array([value], dtype=np.uint64)
                )
        found = _from_unsigned(np.concatenate(parts), dtype)
    if len(found) == 1 and count > 1:
        found = np.repeat(found, count)
    if len(found) != count:
        raise ValueError(f"{len(found)} elements are stored, not {count}")
    return found


def _packed(data: Any, wanted: int, layout: np.dtype[Any]) -> bytes:
    width = layout.itemsize // 2 if layout.kind == "c" else layout.itemsize
    parts = []
    for number, kind, value in fields(data):
        if number == wanted:
            parts.append(bytes(value) if kind == BYTES else value.to_bytes(width, "little"))
    joined = b"".join(parts)
    if len(joined) % layout.itemsize:
        raise ValueError("half an element is stored")
    return joined


def _from_unsigned(values: Array, dtype: DType) -> Array:
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return values.astype(np.uint16).view(dtype.as_numpy_dtype)
    return values.view(np.int64).astype(dtype.as_numpy_dtype)
