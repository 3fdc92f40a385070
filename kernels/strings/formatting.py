"""Strings from numbers, and from other strings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel


def strings_like(values: Sequence[bytes], shape: tuple[int, ...]) -> Value:
    """Strings as a tensor of this shape: `bytes` for rank 0, else an object array."""
    if not shape:
        return values[0]
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


@lru_cache(maxsize=256)
def _formatter(
    dtype: DType, precision: int, scientific: bool, shortest: bool, width: int, fill: bytes
) -> Callable[[Any], bytes]:
    """How one element is written; InvalidArgumentError for a combination that means nothing."""
    fractional = dtype.is_floating or dtype.is_complex
    if not fractional and (scientific or shortest):
        raise InvalidArgumentError(f"scientific and shortest format not supported for datatype {dtype}")
    if not fractional and precision >= 0:
        raise InvalidArgumentError(f"precision not supported for datatype {dtype}")
    if scientific and shortest:
        raise InvalidArgumentError("Cannot select both scientific and shortest notation")
    if len(fill) > 1:
        raise InvalidArgumentError(f"Fill string must be one or fewer characters, not {fill!r}")
    if fill and fill not in (b" ", b"+", b"-", b"0", b"#"):
        raise InvalidArgumentError(f"Fill argument not supported: {fill!r}")
    if dtype.is_bool:
        return lambda value: b"true" if value else b"false"
    spec = b"%" + fill
    if width >= 0:
        spec += b"%d" % width
    if precision >= 0:
        spec += b".%d" % precision
    spec += (b"e" if scientific else b"g" if shortest else b"f") if fractional else b"d"
    if dtype.is_complex:
        return lambda value: b"(" + _float(spec, value.real) + b"," + _float(spec, value.imag) + b")"
    if dtype.is_floating:
        return lambda value: _float(spec, value)
    return lambda value: spec % value


def _float(spec: bytes, value: float) -> bytes:
    """C shows the sign of a NaN; Python does not."""
    if value != value and math.copysign(1.0, value) < 0:
        return (spec % -math.inf).replace(b"inf", b"nan")
    return spec % value


def _cost(values: Any, *_: Any) -> float:
    """Microseconds: about 0.5 an element."""
    return 0.5 * float(getattr(values, "size", 1))


@kernel("AsString", fresh=True, heavy=_cost)
def as_string(
    values: Any, *, T: DType, precision: int, scientific: bool, shortest: bool, width: int, fill: bytes
) -> Value:
    """Each number as C's printf writes it (string, of the input's shape)."""
    write = _formatter(T, precision, scientific, shortest, width, fill)
    array = to_array(values)
    return strings_like([write(value) for value in array.reshape(-1).tolist()], array.shape)


@kernel("StringJoin", fresh=True)
def string_join(inputs: tuple[Value, ...], *, separator: bytes) -> Value:
    """Strings of several tensors joined element by element; those of rank 0 go with all others."""
    shape: tuple[int, ...] = ()
    for tensor in inputs:
        own = getattr(tensor, "shape", ())
        if own and shape and own != shape:
            raise InvalidArgumentError(f"Input shapes do not match: {list(shape)} vs. {list(own)}")
        shape = own or shape
    count = int(np.multiply.reduce(shape, dtype=np.int64))
    columns = []
    for tensor in inputs:
        array = to_array(tensor)
        columns.append(array.reshape(-1).tolist() if array.ndim else [array[()]] * count)
    return strings_like([separator.join(row) for row in zip(*columns, strict=True)], shape)
