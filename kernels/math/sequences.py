"""Sequences of numbers and arithmetic on shapes: Range, LinSpace, BroadcastGradientArgs, counting."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.host_vectors import fixed_vector
from flowengine.kernels.common.segment_sums import add_rows, count_rows
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

#: Numbers from which a range is made row by row, and the length of a row.
_LONG_RANGE: Final = 1 << 15
_RANGE_ROW: Final = 1 << 13


def _scalar(name: str, value: Any) -> Any:
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"{name} must be a scalar, not shape {shape_text(value)}")
    return value[()]


def _range_cost(start: Any, limit: Any, delta: Any) -> float:
    step = float(delta) if getattr(delta, "size", 1) == 1 else 0.0
    return abs((float(limit) - float(start)) / step) * 1e-3 if step else 0.0


@kernel("Range", fresh=True, heavy=_range_cost, host=("start", "limit", "delta"))
def range_(xp: Any, start: Any, limit: Any, delta: Any) -> Any:
    """start, start + delta, ... short of limit, each the sum of the one before and delta in their type.

    InvalidArgumentError where delta is 0 or leads away from the limit.
    """
    start, limit, delta = _scalar("start", start), _scalar("limit", limit), _scalar("delta", delta)
    if delta == 0:
        raise InvalidArgumentError(f"Requires delta != 0: {delta}")
    if delta > 0 and start > limit:
        raise InvalidArgumentError(f"Requires start <= limit when delta > 0: {start}/{limit}")
    if delta < 0 and start < limit:
        raise InvalidArgumentError(f"Requires start >= limit when delta < 0: {start}/{limit}")
    dtype = start.dtype
    if dtype.kind in "iu":
        count = len(range(int(start), int(limit), int(delta)))
        if count >= _LONG_RANGE:
            # Sums of long rows go in vectors, the steps of `arange` do not.
            first = xp.arange(_RANGE_ROW, dtype=dtype) * delta + start
            rows = xp.arange(-(-count // _RANGE_ROW), dtype=dtype) * (delta * dtype.type(_RANGE_ROW))
            return xp.add(first, rows[:, None]).reshape(-1)[:count]
        return xp.arange(int(start), int(limit), int(delta), dtype=dtype)
    size = math.ceil(abs(float((limit - start) / delta)))
    steps = xp.full(size, delta, dtype)
    if size:
        steps[0] = start
    return xp.add.accumulate(steps, dtype=dtype)


@kernel("LinSpace", fresh=True, host=("start", "stop", "num"))
def lin_space(xp: Any, start: Any, stop: Any, num: Any) -> Any:
    """`num` numbers at equal distances from start to stop, both included."""
    start, stop, count = _scalar("start", start), _scalar("stop", stop), int(_scalar("num", num))
    if count <= 0:
        raise InvalidArgumentError(f"Requires num > 0: {count}")
    dtype = start.dtype
    if count == 1:
        return xp.full(1, start, dtype)
    step = (stop - start) / dtype.type(count - 1)
    result = (start + step * xp.arange(count).astype(dtype)).astype(dtype)
    # Both ends are exact, whatever lies between them.
    result[0], result[-1] = start, stop
    return result


@kernel("BroadcastGradientArgs", device=None, heavy=False, host=("s0", "s1", "r0", "r1"))
def broadcast_gradient_args(s0: Array, s1: Array) -> Any:
    """The axes over which to sum the gradient of a broadcast operation, for each of two shapes.

    An axis where both have 1 belongs to both. InvalidArgumentError where the shapes do not broadcast.
    """
    if s0.ndim != 1 or s1.ndim != 1:
        index, shape = (0, s0) if s0.ndim != 1 else (1, s1)
        raise InvalidArgumentError(f"In[{index}] must be a vector, not shape {shape_text(shape)}")
    return _gradient_axes(tuple(s0.tolist()), tuple(s1.tolist()), s0.dtype)


@functools.lru_cache(maxsize=4096)
def _gradient_axes(first: tuple[int, ...], second: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
    """The two vectors of axes; shared by all who ask, so nobody may write into them."""
    sum_a: list[int] = []
    sum_b: list[int] = []
    rank = max(len(first), len(second))
    a = (1,) * (rank - len(first)) + first
    b = (1,) * (rank - len(second)) + second
    for axis, (m, n) in enumerate(zip(a, b, strict=True)):
        if m == n:
            if m == 1 and first != second:
                sum_a.append(axis)
                sum_b.append(axis)
        elif m == 1:
            sum_a.append(axis)
        elif n == 1:
            sum_b.append(axis)
        else:
            raise InvalidArgumentError(f"Incompatible shapes: [{_dims(first)}] vs. [{_dims(second)}]")
    return fixed_vector(sum_a, dtype), fixed_vector(sum_b, dtype)


def _dims(shape: Iterable[int]) -> str:
    return ",".join(map(str, shape))


@kernel("Bincount", fresh=True, host=("size",))
def bincount(xp: Any, arr: Array, size: Any, weights: Array) -> Any:
    """How often each number below `size` occurs, or the sum of its weights where there are any.

    arr, weights of one shape, weights possibly empty; numbers from `size` up are ignored.
    InvalidArgumentError for a negative number or size.
    """
    count = bin_count(size)
    numbers = arr.reshape(-1)
    if numbers.size:
        refuse(numbers.min() < 0, negative_number)
    # What is outside goes to a bin that is cut off.
    places = xp.minimum(numbers, count)
    if weights.size:
        if weights.size != arr.size:
            raise InvalidArgumentError(
                f"weights must have the shape of arr or none: {shape_text(weights)} vs. {shape_text(arr)}"
            )
        bins = xp.zeros(count + 1, weights.dtype)
        add_rows(xp, bins, places, weights.reshape(-1))
        return bins[:count]
    return count_rows(xp, places, count + 1)[:count].astype(weights.dtype)


def bin_count(size: Any) -> int:
    """A number of bins; InvalidArgumentError for a negative one."""
    count = int(size)
    if count < 0:
        raise InvalidArgumentError(f"size ({count}) must be non-negative")
    return count


def negative_number() -> InvalidArgumentError:
    return InvalidArgumentError("Input arr must be non-negative!")


@kernel("HistogramFixedWidth", fresh=True, host=("value_range", "nbins"))
def histogram_fixed_width(xp: Any, values: Array, value_range: Array, nbins: Any, *, dtype: DType) -> Any:
    """Counts of values in `nbins` equal parts of a range; what lies outside falls to the outer parts."""
    count = int(nbins)
    if value_range.shape != (2,):
        raise InvalidArgumentError(
            f"value_range should be a vector of 2 elements, not {shape_text(value_range)}"
        )
    low, high = value_range[0], value_range[1]
    if not low < high:
        raise InvalidArgumentError(
            f"value_range should satisfy value_range[0] < value_range[1], but got '[{low}, {high}]'"
        )
    if count <= 0:
        raise InvalidArgumentError(f"nbins should be a positive number, but got '{count}'")
    step = (float(high) - float(low)) / count
    index = xp.floor((values.reshape(-1).astype(np.float64) - float(low)) / step)
    index = xp.clip(xp.nan_to_num(index), 0, count - 1).astype(np.int64)
    return count_rows(xp, index, count).astype(dtype.as_numpy_dtype)


@kernel("Bucketize", fresh=True)
def bucketize(xp: Any, x: Array, *, boundaries: tuple[float, ...]) -> Any:
    """How many of the sorted boundaries are at most x: its bucket, int32."""
    if list(boundaries) != sorted(boundaries):
        raise InvalidArgumentError("Expected sorted boundaries")
    edges = xp.array(boundaries, np.float32)
    return xp.asarray(xp.searchsorted(edges, x, side="right")).astype(np.int32)
