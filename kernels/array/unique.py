"""Distinct values in the order of their first appearance, and what is in one list but not in another."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, integers, resolve_axis
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


@kernel("Unique", fresh=True)
def unique(x: Array, *, out_idx: DType) -> tuple[Array, Array]:
    """(y, idx): the distinct elements of the vector x, and for each element where in y it stands."""
    first, numbers = first_appearances(_vector(x, "unique"))
    return x[first], numbers.astype(out_idx.as_numpy_dtype, copy=False)


@kernel("UniqueWithCounts", fresh=True)
def unique_with_counts(x: Array, *, out_idx: DType) -> tuple[Array, Array, Array]:
    """Unique, and how often each distinct element occurs."""
    first, numbers = first_appearances(_vector(x, "unique"))
    index = out_idx.as_numpy_dtype
    counts = np.bincount(numbers, minlength=len(first))
    return x[first], numbers.astype(index, copy=False), counts.astype(index, copy=False)


def _along_axis(x: Array, axis: Array) -> tuple[Array, Array, Array, int]:
    """(slices moved to the front, first appearances, numbers, axis) for the V2 forms."""
    axes = integers(axis, "axis")
    if len(axes) > 1:
        raise InvalidArgumentError(f"axis must have at most one element, not {len(axes)}")
    if not axes:
        first, numbers = first_appearances(_vector(x, "unique"))
        return x, first, numbers, 0
    number = resolve_axis(axes[0], x.ndim, "axis")
    moved = np.moveaxis(x, number, 0)
    if x.ndim == 1:
        first, numbers = first_appearances(x)
    else:
        first, numbers = _by_dict(_row_keys(moved))
    return moved, first, numbers, number


def _row_keys(rows: Array) -> Array:
    """One hashable object a row, equal where the rows are: NaNs are unequal to themselves."""
    keys = np.empty(len(rows), object)
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
    if flat.dtype.kind in "iub":
        keys[:] = [row.tobytes() for row in flat]
    else:
        keys[:] = [tuple(row) for row in flat.tolist()] if flat.size else [()] * len(rows)
    return keys


@kernel("UniqueV2", fresh=True)
def unique_v2(x: Array, axis: Array, *, out_idx: DType) -> tuple[Array, Array]:
    """Unique of the slices of x along an axis; of a vector's elements where `axis` is empty."""
    moved, first, numbers, number = _along_axis(to_array(x), axis)
    y = np.ascontiguousarray(np.moveaxis(moved[first], 0, number))
    return y, numbers.astype(out_idx.as_numpy_dtype, copy=False)


@kernel("UniqueWithCountsV2", fresh=True)
def unique_with_counts_v2(x: Array, axis: Array, *, out_idx: DType) -> tuple[Array, Array, Array]:
    """UniqueV2, and how often each distinct slice occurs."""
    moved, first, numbers, number = _along_axis(to_array(x), axis)
    y = np.ascontiguousarray(np.moveaxis(moved[first], 0, number))
    index = out_idx.as_numpy_dtype
    counts = np.bincount(numbers, minlength=len(first))
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
