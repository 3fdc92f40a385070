"""Distinct values in the order of their first appearance, and what is in one list but not in another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, in_host_memory, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, integers, resolve_axis
from flowengine.kernels.common.segment_sums import count_rows
from flowengine.kernels.numpy.order.appearances import (
    DICT_ELEMENTS,
    first_appearances,
    first_appearances_of_rows,
)
from flowengine.kernels.registry import kernel


def _appearances(xp: Any, rows: Array) -> tuple[Array, Array]:
    """`first_appearances` of the rows (N, ...), of a vector's elements: in host memory or on a device."""
    if not in_host_memory(rows):
        return _by_order(xp, rows.reshape(len(rows), math.prod(rows.shape[1:])))
    return first_appearances(rows) if rows.ndim == 1 else first_appearances_of_rows(rows)


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


@kernel("ListDiff", fresh=True, device="CPU")
def list_diff(x: Array, y: Array, *, out_idx: DType) -> tuple[Array, Array]:
    """(out, idx): the elements of the vector x that are not in y, in order, and where in x they stand."""
    for name, value in (("x", x), ("y", y)):
        if value.ndim != 1:
            raise InvalidArgumentError(f"{name} should be a 1D vector, got shape {brackets(value.shape)}")
    if x.dtype.hasobject or x.size + y.size <= DICT_ELEMENTS:
        other = set(y.tolist())
        keep = np.array([i for i, value in enumerate(x.tolist()) if value not in other], np.int64)
    else:
        keep = np.flatnonzero(np.isin(x, y, invert=True))
    return x[keep], keep.astype(out_idx.as_numpy_dtype, copy=False)
