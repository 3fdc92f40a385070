"""Values looked for in a tensor: their places, distinct ones, those that are not zero."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np

from flowengine.core.accounting import ask_for, is_asked
from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, integers, resolve_axis
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.common.segment_sums import count_rows
from flowengine.kernels.numpy.order.appearances import (
    DICT_ELEMENTS,
    first_appearances,
    first_appearances_of_rows,
)
from flowengine.kernels.registry import kernel

# Where values stand in sorted rows, and what flat positions mean in a shape.


def _search(
    xp: Any, sorted_inputs: Array, values: Array, out_type: DType, side: Literal["left", "right"]
) -> Any:
    if sorted_inputs.ndim != 2 or values.ndim != 2 or len(sorted_inputs) != len(values):
        raise InvalidArgumentError(
            "sorted_inputs and values must be matrices with one number of rows, but have shapes "
            f"{brackets(sorted_inputs.shape)} and {brackets(values.shape)}"
        )
    out = xp.empty(values.shape, out_type.as_numpy_dtype)
    if not out.size:
        return out  # of however many rows
    for row, (line, wanted) in enumerate(zip(sorted_inputs, values, strict=True)):
        out[row] = line.searchsorted(wanted, side)
    return out


@kernel("LowerBound", fresh=True)
def lower_bound(xp: Any, sorted_inputs: Array, values: Array, *, out_type: DType) -> Any:
    """(B, N) sorted rows and (B, M) values -> (B, M): the first place whose element is not less."""
    return _search(xp, sorted_inputs, values, out_type, "left")


@kernel("UpperBound", fresh=True)
def upper_bound(xp: Any, sorted_inputs: Array, values: Array, *, out_type: DType) -> Any:
    """(B, N) sorted rows and (B, M) values -> (B, M): the first place whose element is greater."""
    return _search(xp, sorted_inputs, values, out_type, "right")


def checked_positions(indices: Value, dims: Array) -> tuple[Array, list[int]]:
    """Flat positions, none beyond the end, and the shape that they are of."""
    positions = to_array(indices)
    if positions.ndim > 1:
        raise InvalidArgumentError(
            f"The indices can only be scalar or vector, got shape {brackets(positions.shape)}"
        )
    shape = integers(dims, "dims")
    if any(d <= 0 for d in shape):
        raise InvalidArgumentError(f"dims must be positive, but is {brackets(shape)}")
    check_indices(positions.clip(0), math.prod(shape))
    return positions, shape


@kernel("UnravelIndex", fresh=True, host=("dims",))
def unravel_index(xp: Any, indices: Value, dims: Array) -> Any:
    """(N,) or () flat positions -> (rank, N) or (rank,) coordinates in an array of shape `dims`.

    Those of a negative position are the negatives of its absolute value's.
    """
    positions, shape = checked_positions(indices, dims)
    out = xp.empty((len(shape), *positions.shape), positions.dtype)
    sign, positions = xp.sign(positions), xp.abs(positions)
    for axis in range(len(shape) - 1, -1, -1):
        out[axis] = sign * (positions if axis == 0 else positions % shape[axis])
        positions = positions // shape[axis]
    return out


# Where: the coordinates of what is not zero.

#: From this length on rows are searched one after another as one line.
_LONG_ROW: Final = 16


@kernel("Where", fresh=True, looks=True)
def where(xp: Any, x: Value) -> Any:
    """Coordinates of the true (or non-zero) elements in row-major order, (count, rank) int64.

    Raises InvalidArgumentError for a scalar.
    """
    if not x.ndim:
        raise InvalidArgumentError("Where needs an input of rank 1 or more, not a scalar")
    if is_asked():
        # What is found is held twice for a moment: as one array an axis, and together.
        ask_for(2 * int(xp.count_nonzero(x)) * x.ndim * np.dtype(np.int64).itemsize)
    if x.ndim == 1:
        positions: Array = x.nonzero()[0]
        return positions.reshape(-1, 1)
    columns = x.shape[-1]
    if columns < _LONG_ROW:
        found = x.nonzero()
        out = xp.empty((len(found[0]), x.ndim), np.int64)
        for axis, coordinates in enumerate(found):
            out[:, axis] = coordinates
        return out
    # numpy's search of several axes takes six times as long as that of one: find the places in the
    # flattened array, count them by row, and repeat each row's coordinates as often.
    flat = x.reshape(-1, columns)
    places = flat.reshape(-1).nonzero()[0]
    counts = xp.count_nonzero(flat, axis=1)
    rows = xp.arange(len(flat))
    out = xp.empty((len(places), x.ndim), np.int64)
    for axis, coordinates in enumerate(xp.unravel_index(rows, x.shape[:-1])):
        out[:, axis] = xp.repeat(coordinates, counts)
    xp.subtract(places, xp.repeat(rows * columns, counts), out=out[:, -1])
    return out


# Distinct values in the order of their first appearance, and what is in one list but not in another.


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


# Whether a tensor counts as true, as a condition does.


@kernel(
    "ToBool",
    types={"T": ["bool"]},
    heavy=False,
    device="CPU",
    inline="{f}({0}) if {0}.ndim else {0}",
    inline_any_rank=True,
)
def to_bool_of_bool(x: Array) -> Any:
    """A truth itself, which is what conditions nearly always are; of more than one, whether there are any."""
    return np.bool_(x.size > 0) if x.ndim else x


@kernel("ToBool", heavy=False, device="CPU")
def to_bool(x: Value) -> Any:
    """Whether a number is not 0, a text is not empty, another tensor has elements.

    For a CPU, because the caller branches on the result.
    """
    if isinstance(x, bytes):
        return np.bool_(len(x) > 0)
    array = np.asarray(x)
    if array.ndim:
        return np.bool_(array.size > 0)
    return np.bool_(len(array.item()) > 0 if array.dtype == object else array != 0)
