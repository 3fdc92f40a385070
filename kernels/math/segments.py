"""Reductions over segments: rows that carry the same id.

The sorted forms take ids that never fall and make one row an id up to the last; the unsorted ones take any
ids and are told how many rows to make, and drop the rows of negative ids.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import blank, brackets, check_indices, filled, scalar
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.registry import kernel

#: Up to this many elements `ufunc.at` is quicker than sorting the rows.
_AT_ELEMENTS: Final = 2048


def sorted_ids(segment_ids: Array, rows: int) -> int:
    """The number of segments of a vector of ids that never fall.

    Raises InvalidArgumentError where it is no vector of `rows` ids, or one falls or is negative.
    """
    if segment_ids.ndim != 1:
        raise InvalidArgumentError(
            f"segment_ids should be a vector, but has shape {brackets(segment_ids.shape)}"
        )
    if segment_ids.size != rows:
        raise InvalidArgumentError(
            f"segment_ids should be the same size as dimension 0 of input: {segment_ids.size} vs. {rows}"
        )
    if not rows:
        return 0
    if segment_ids[0] < 0:
        raise InvalidArgumentError(f"segment ids must be >= 0, but segment_ids[0] = {segment_ids[0]}")
    falls = segment_ids[1:] < segment_ids[:-1]
    if falls.any():
        place = int(falls.argmax()) + 1
        raise InvalidArgumentError(
            f"segment ids are not increasing: segment_ids[{place}] = {segment_ids[place]} "
            f"after {segment_ids[place - 1]}"
        )
    return int(segment_ids[-1]) + 1


def starts_of(ids: Array) -> Array:
    """Where each run of equal ids begins in a sorted, non-empty vector."""
    return np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))


def reduce_sorted(ufunc: Any, out: Array, ids: Array, rows: Array) -> None:
    """out[id] = ufunc over the rows with that id, for the ids that occur; ids sorted."""
    if not rows.size:
        return
    starts = starts_of(ids)
    out[ids[starts]] = ufunc.reduceat(rows, starts, axis=0)


def _data(data: Value) -> Array:
    array = to_array(data)
    if not array.ndim:
        raise InvalidArgumentError("data must be at least rank 1, but is a scalar")
    return array


def _sorted_output(data: Array, segment_ids: Array, initial: Any) -> tuple[Array, Array]:
    count = sorted_ids(segment_ids, len(data))
    return filled((count, *data.shape[1:]), initial, data.dtype), segment_ids


@kernel("SegmentSum", fresh=True)
def segment_sum(data: Value, segment_ids: Array) -> Array:
    """(N, S...) rows and (N,) sorted ids -> (last id + 1, S...) sums; 0 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(array, segment_ids, 0)
    add_rows(out, ids, array)
    return out


@kernel("SegmentMean", fresh=True)
def segment_mean(data: Value, segment_ids: Array) -> Array:
    """The means of the rows of each sorted id; 0 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(array, segment_ids, 0)
    add_rows(out, ids, array)
    counts = np.maximum(np.bincount(ids, minlength=len(out)), 1)
    divisor = counts.reshape((-1,) + (1,) * (out.ndim - 1)).astype(out.dtype)
    if out.dtype.kind in "iu":
        # Towards zero, as C divides: np.abs would wrap for the smallest number.
        out -= np.fmod(out, divisor)
        out //= divisor
    else:
        out /= divisor
    return out


@kernel("SegmentProd", fresh=True)
def segment_prod(data: Value, segment_ids: Array) -> Array:
    """The products of the rows of each sorted id; 1 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(array, segment_ids, 1)
    reduce_sorted(np.multiply, out, ids, array)
    return out


@kernel("SegmentMax", fresh=True)
def segment_max(data: Value, segment_ids: Array) -> Array:
    """The largest of the rows of each sorted id; 0 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(array, segment_ids, 0)
    reduce_sorted(np.maximum, out, ids, array)
    return out


@kernel("SegmentMin", fresh=True)
def segment_min(data: Value, segment_ids: Array) -> Array:
    """The smallest of the rows of each sorted id; 0 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(array, segment_ids, 0)
    reduce_sorted(np.minimum, out, ids, array)
    return out


def _unsorted(data: Value, segment_ids: Value, num_segments: Value) -> tuple[Array, Array, int]:
    """(rows, their ids, number of segments), ids checked and rows of negative ids dropped."""
    array, ids = to_array(data), to_array(segment_ids)
    if array.shape[: ids.ndim] != ids.shape:
        raise InvalidArgumentError(
            f"data.shape = {brackets(array.shape)} does not start with segment_ids.shape = "
            f"{brackets(ids.shape)}"
        )
    count = scalar(num_segments, "num_segments")
    if count < 0:
        raise InvalidArgumentError(f"Input num_segments == {count} must not be negative.")
    flat = ids.reshape(-1)
    rows = array.reshape((flat.size, *array.shape[ids.ndim :]))
    if flat.size and int(np.minimum.reduce(flat)) < 0:
        kept = flat >= 0
        check_indices(np.where(ids < 0, 0, ids), count, "segment_ids") if kept.any() else None
        flat, rows = flat[kept], rows[kept]
    else:
        check_indices(ids, count, "segment_ids")
    return rows, flat, count


def _reduce_unsorted(ufunc: Any, out: Array, ids: Array, rows: Array) -> Array:
    if not rows.size:
        return out
    if rows.size <= _AT_ELEMENTS:
        ufunc.at(out, ids, rows)
        return out
    order = ids.argsort(kind="stable")
    ids = ids.take(order)
    starts = starts_of(ids)
    present = ids[starts]
    out[present] = ufunc.reduceat(rows.take(order, 0), starts, axis=0)
    return out


@kernel("UnsortedSegmentSum", fresh=True, host=("num_segments",))
def unsorted_segment_sum(data: Value, segment_ids: Value, num_segments: Value) -> Array:
    """Sums of the rows by id.

    data          (I..., S...)
    segment_ids   (I...) int32 or int64, below num_segments; rows of negative ids are dropped
    returns       (num_segments, S...); 0 where an id does not occur
    """
    rows, ids, count = _unsorted(data, segment_ids, num_segments)
    out = blank((count, *rows.shape[1:]), rows.dtype)
    add_rows(out, ids, rows)
    return out


@kernel("UnsortedSegmentProd", fresh=True, host=("num_segments",))
def unsorted_segment_prod(data: Value, segment_ids: Value, num_segments: Value) -> Array:
    """Products of the rows by id; 1 where an id does not occur."""
    rows, ids, count = _unsorted(data, segment_ids, num_segments)
    return _reduce_unsorted(np.multiply, filled((count, *rows.shape[1:]), 1, rows.dtype), ids, rows)


@kernel("UnsortedSegmentMax", fresh=True, host=("num_segments",))
def unsorted_segment_max(data: Value, segment_ids: Value, num_segments: Value) -> Array:
    """The largest of the rows by id; the smallest finite number where an id does not occur."""
    rows, ids, count = _unsorted(data, segment_ids, num_segments)
    out = filled((count, *rows.shape[1:]), as_dtype(rows.dtype).min, rows.dtype)
    return _reduce_unsorted(np.maximum, out, ids, rows)


@kernel("UnsortedSegmentMin", fresh=True, host=("num_segments",))
def unsorted_segment_min(data: Value, segment_ids: Value, num_segments: Value) -> Array:
    """The smallest of the rows by id; the largest finite number where an id does not occur."""
    rows, ids, count = _unsorted(data, segment_ids, num_segments)
    out = filled((count, *rows.shape[1:]), as_dtype(rows.dtype).max, rows.dtype)
    return _reduce_unsorted(np.minimum, out, ids, rows)
