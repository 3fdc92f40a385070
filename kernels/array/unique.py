"""Distinct values in the order of their first appearance, and what is in one list but not in another."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, integers, resolve_axis
from flowengine.kernels.common.segment_sums import count_rows
from flowengine.kernels.registry import kernel

HOST: Final = "how many distinct values there are has to be seen; small inputs go through a dict"

#: Up to this many elements a dict is faster than sorting (and strings are always put into one).
_DICT_ELEMENTS = 64


def first_appearances(x: Array) -> tuple[Array, Array]:
    """(positions of first appearances, number of the distinct value of each element) of a vector.

    NaNs are all different, as they are unequal; both zeros are one value.
    """
    size = x.size
    if size <= _DICT_ELEMENTS or x.dtype.hasobject:
        return _by_dict(x)
    if x.dtype.kind in "iu":
        low, high = int(np.minimum.reduce(x)), int(np.maximum.reduce(x))
        if high - low < 4 * size:
            return _by_table(x, low, high)
    if x.dtype.kind == "V" or (x.dtype.itemsize == 2 and x.dtype.kind == "f"):
        x = x.astype(np.float32)
    _, first, inverse = np.unique(x, return_index=True, return_inverse=True, equal_nan=False)
    order = np.argsort(first)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return first[order], number[inverse]


def _appearances(xp: Any, rows: Array) -> tuple[Array, Array]:
    """`first_appearances` of the rows (N, ...), of a vector's elements: in host memory or on a device."""
    if not in_host_memory(rows):
        return _by_order(xp, rows.reshape(len(rows), math.prod(rows.shape[1:])))
    return first_appearances(rows) if rows.ndim == 1 else _by_dict(_row_keys(rows))


def _by_order(xp: Any, rows: Array) -> tuple[Array, Array]:
    """`first_appearances` of a device's rows (N, C), which are sorted: equal ones stay as they come."""
    count = len(rows)
    if not count:
        return xp.zeros(0, np.int64), xp.zeros(0, np.int64)
    order = xp.lexsort(xp.ascontiguousarray(rows.T[::-1])) if rows.shape[1] else xp.arange(count)
    ordered = rows.take(order, 0)
    is_first = xp.concatenate([xp.ones(1, np.bool_), (ordered[1:] != ordered[:-1]).any(1)])
    first = order.take(xp.flatnonzero(is_first))
    appearing = first.argsort()
    number = xp.empty(len(first), np.int64)
    number[appearing] = xp.arange(len(first))
    numbers = xp.empty(count, np.int64)
    numbers[order] = number.take(xp.cumsum(is_first) - 1)
    return first.take(appearing), numbers


def _by_dict(x: Array) -> tuple[Array, Array]:
    seen: dict[Any, int] = {}
    first: list[int] = []
    numbers: list[int] = []
    for position, value in enumerate(x.tolist()):
        number = seen.setdefault(value, len(seen))
        if number == len(first):
            first.append(position)
        numbers.append(number)
    return np.array(first, np.int64), np.array(numbers, np.int64)


def _by_table(x: Array, low: int, high: int) -> tuple[Array, Array]:
    """Integers of a small range (ids of a vocabulary): one table instead of a sort."""
    offset = x.astype(np.int64) - low
    position = np.arange(x.size)
    table = np.empty(high - low + 1, np.int64)
    # Of several writes to one place the last stays: written backwards, the first appearance.
    table[offset[::-1]] = position[::-1]
    first_of = table[offset]
    is_first = first_of == position
    number = np.cumsum(is_first) - 1
    return np.flatnonzero(is_first), number[first_of]


def _vector(x: Array, op: str) -> Array:
    if x.ndim != 1:
        raise InvalidArgumentError(f"{op} expects a 1D vector, got shape {brackets(x.shape)}")
    return x


@kernel("Unique", fresh=True, looks=True)
def unique(xp: Any, x: Array, *, out_idx: DType) -> tuple[Array, Array]:
    """(y, idx): the distinct elements of the vector x, and for each element where in y it stands."""
    first, numbers = _appearances(xp, _vector(x, "unique"))
    return x[first], numbers.astype(out_idx.as_numpy_dtype, copy=False)


@kernel("UniqueWithCounts", fresh=True, looks=True)
def unique_with_counts(xp: Any, x: Array, *, out_idx: DType) -> tuple[Array, Array, Array]:
    """Unique, and how often each distinct element occurs."""
    first, numbers = _appearances(xp, _vector(x, "unique"))
    index = out_idx.as_numpy_dtype
    counts = count_rows(xp, numbers, len(first))
    return x[first], numbers.astype(index, copy=False), counts.astype(index, copy=False)


def _along_axis(xp: Any, x: Array, axis: Array) -> tuple[Array, Array, Array, int]:
    """(slices moved to the front, first appearances, numbers, axis) for the V2 forms."""
    axes = integers(axis, "axis")
    if len(axes) > 1:
        raise InvalidArgumentError(f"axis must have at most one element, not {len(axes)}")
    if not axes:
        first, numbers = _appearances(xp, _vector(x, "unique"))
        return x, first, numbers, 0
    number = resolve_axis(axes[0], x.ndim, "axis")
    moved = xp.moveaxis(x, number, 0)
    first, numbers = _appearances(xp, moved)
    return moved, first, numbers, number


def _row_keys(rows: Array) -> Array:
    """One hashable object a row, equal where the rows are: NaNs are unequal to themselves."""
    keys = np.empty(len(rows), object)
    flat = np.ascontiguousarray(rows).reshape(len(rows), math.prod(rows.shape[1:]))
    if flat.dtype.kind in "iub":
        keys[:] = [row.tobytes() for row in flat]
    else:
        keys[:] = [tuple(row) for row in flat.tolist()] if flat.size else [()] * len(rows)
    return keys


@kernel("UniqueV2", fresh=True, host=("axis",), looks=True)
def unique_v2(xp: Any, x: Array, axis: Array, *, out_idx: DType) -> tuple[Array, Array]:
    """Unique of the slices of x along an axis; of a vector's elements where `axis` is empty."""
    moved, first, numbers, number = _along_axis(xp, to_array(x), axis)
    y = xp.ascontiguousarray(xp.moveaxis(moved[first], 0, number))
    return y, numbers.astype(out_idx.as_numpy_dtype, copy=False)


@kernel("UniqueWithCountsV2", fresh=True, host=("axis",), looks=True)
def unique_with_counts_v2(xp: Any, x: Array, axis: Array, *, out_idx: DType) -> tuple[Array, Array, Array]:
    """UniqueV2, and how often each distinct slice occurs."""
    moved, first, numbers, number = _along_axis(xp, to_array(x), axis)
    y = xp.ascontiguousarray(xp.moveaxis(moved[first], 0, number))
    index = out_idx.as_numpy_dtype
    counts = count_rows(xp, numbers, len(first))
    return y, numbers.astype(index, copy=False), counts.astype(index, copy=False)


@kernel("ListDiff", fresh=True)
def list_diff(x: Array, y: Array, *, out_idx: DType) -> tuple[Array, Array]:
    """(out, idx): the elements of the vector x that are not in y, in order, and where in x they stand."""
    for name, value in (("x", x), ("y", y)):
        if value.ndim != 1:
            raise InvalidArgumentError(f"{name} should be a 1D vector, got shape {brackets(value.shape)}")
    if x.dtype.hasobject or x.size + y.size <= _DICT_ELEMENTS:
        other = set(y.tolist())
        keep = np.array([i for i, value in enumerate(x.tolist()) if value not in other], np.int64)
    else:
        keep = np.flatnonzero(np.isin(x, y, invert=True))
    return x[keep], keep.astype(out_idx.as_numpy_dtype, copy=False)
