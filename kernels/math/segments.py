"""Reductions of rows, or of gathered rows, that carry the same id."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.dtypes import as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import blank, brackets, filled, scalar
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.indices import check_indices, outside, pick
from flowengine.kernels.common.segment_sums import add_rows, combine_rows, count_rows
from flowengine.kernels.registry import kernel

# Reductions over segments: rows that carry the same id.
#
# The sorted forms take ids that never fall and make one row an id up to the last; the unsorted ones take
# any
# ids and are told how many rows to make, and drop the rows of negative ids.


def check_sorted(segment_ids: Array, rows: int) -> None:
    """InvalidArgumentError unless this is a vector of `rows` ids, none negative, that never fall."""
    if segment_ids.ndim != 1:
        raise InvalidArgumentError(
            f"segment_ids should be a vector, but has shape {brackets(segment_ids.shape)}"
        )
    if segment_ids.size != rows:
        raise InvalidArgumentError(
            f"segment_ids should be the same size as dimension 0 of input: {segment_ids.size} vs. {rows}"
        )
    if not rows:
        return
    falls = segment_ids[1:] < segment_ids[:-1]
    refuse(falls.any() | (segment_ids[0] < 0), lambda: _no_order(segment_ids, falls))


def segments_of(segment_ids: Array) -> int:
    """The number of segments of ids that never fall: one more than the last, which is looked at."""
    return int(segment_ids[-1]) + 1 if segment_ids.size else 0


def _no_order(segment_ids: Array, falls: Array) -> InvalidArgumentError:
    if segment_ids[0] < 0:
        return InvalidArgumentError(f"segment ids must be >= 0, but segment_ids[0] = {segment_ids[0]}")
    place = int(falls.argmax()) + 1
    return InvalidArgumentError(
        f"segment ids are not increasing: segment_ids[{place}] = {segment_ids[place]} "
        f"after {segment_ids[place - 1]}"
    )


def _data(data: Value) -> Array:
    array = to_array(data)
    if not array.ndim:
        raise InvalidArgumentError("data must be at least rank 1, but is a scalar")
    return array


def _sorted_output(xp: Any, data: Array, segment_ids: Array, initial: Any) -> tuple[Array, Array]:
    check_sorted(segment_ids, len(data))
    return filled(xp, (segments_of(segment_ids), *data.shape[1:]), initial, data.dtype), segment_ids


def row_counts(xp: Any, ids: Array, count: int, like: Array) -> Any:
    """How many rows have each id, at least 1: a column that broadcasts over `like`, of its dtype."""
    counts = xp.maximum(count_rows(xp, ids, count), 1)
    return counts.reshape((-1,) + (1,) * (like.ndim - 1)).astype(like.dtype)


@kernel("SegmentSum", fresh=True, looks=True)
def segment_sum(xp: Any, data: Value, segment_ids: Array) -> Any:
    """(N, S...) rows and (N,) sorted ids -> (last id + 1, S...) sums; 0 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(xp, array, segment_ids, 0)
    add_rows(xp, out, ids, array)
    return out


@kernel("SegmentMean", fresh=True, looks=True)
def segment_mean(xp: Any, data: Value, segment_ids: Array) -> Any:
    """The means of the rows of each sorted id; 0 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(xp, array, segment_ids, 0)
    add_rows(xp, out, ids, array)
    divisor = row_counts(xp, ids, len(out), out)
    if out.dtype.kind in "iu":
        # Towards zero, as C divides: np.abs would wrap for the smallest number.
        out -= xp.fmod(out, divisor)
        out //= divisor
    else:
        out /= divisor
    return out


@kernel("SegmentProd", fresh=True, looks=True)
def segment_prod(xp: Any, data: Value, segment_ids: Array) -> Any:
    """The products of the rows of each sorted id; 1 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(xp, array, segment_ids, 1)
    combine_rows(xp, xp.multiply, out, ids, array, in_order=True)
    return out


@kernel("SegmentMax", fresh=True, looks=True)
def segment_max(xp: Any, data: Value, segment_ids: Array) -> Any:
    """The largest of the rows of each sorted id; 0 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(xp, array, segment_ids, 0)
    combine_rows(xp, xp.maximum, out, ids, array, in_order=True)
    return out


@kernel("SegmentMin", fresh=True, looks=True)
def segment_min(xp: Any, data: Value, segment_ids: Array) -> Any:
    """The smallest of the rows of each sorted id; 0 where an id does not occur."""
    array = _data(data)
    out, ids = _sorted_output(xp, array, segment_ids, 0)
    combine_rows(xp, xp.minimum, out, ids, array, in_order=True)
    return out


def _unsorted(xp: Any, data: Value, segment_ids: Value, num_segments: Value) -> tuple[Array, Array, int]:
    """(rows, their ids, number of segments), ids checked and rows of negative ids dropped."""
    array, ids = to_array(data), to_array(segment_ids)
    if ids.dtype.itemsize < 4:
        # The number of segments need not fit into 16 bits.
        ids = ids.astype(np.int32)
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
    if not in_host_memory(ids):
        refuse((ids >= count).any(), lambda: outside(xp.where(ids < 0, 0, ids), count, "segment_ids"))
        # Rows of negative ids go to a row that is cut off.
        flat = xp.where(flat < 0, count, flat)
    elif flat.size and int(flat.min()) < 0:
        kept = flat >= 0
        if kept.any():
            check_indices(xp.where(ids < 0, 0, ids), count, "segment_ids")
        flat, rows = flat[kept], rows[kept]
    else:
        check_indices(ids, count, "segment_ids")
    return rows, flat, count


def _output(xp: Any, ids: Array, count: int, rows: Array, initial: Any) -> tuple[Any, Any]:
    """(memory to combine rows in, the part of it that is the result)."""
    spare = 0 if in_host_memory(ids) else 1
    shape = (count + spare, *rows.shape[1:])
    out = filled(xp, shape, initial, rows.dtype) if initial else blank(xp, shape, rows.dtype)
    return out, out[:count] if spare else out


@kernel("UnsortedSegmentSum", fresh=True, host=("num_segments",))
def unsorted_segment_sum(xp: Any, data: Value, segment_ids: Value, num_segments: Value) -> Any:
    """Sums of the rows by id.

    data          (I..., S...)
    segment_ids   (I...) int16, int32 or int64, below num_segments; rows of negative ids are dropped
    returns       (num_segments, S...); 0 where an id does not occur
    """
    rows, ids, count = _unsorted(xp, data, segment_ids, num_segments)
    out, result = _output(xp, ids, count, rows, 0)
    add_rows(xp, out, ids, rows)
    return result


@kernel("UnsortedSegmentProd", fresh=True, host=("num_segments",))
def unsorted_segment_prod(xp: Any, data: Value, segment_ids: Value, num_segments: Value) -> Any:
    """Products of the rows by id; 1 where an id does not occur."""
    rows, ids, count = _unsorted(xp, data, segment_ids, num_segments)
    out, result = _output(xp, ids, count, rows, 1)
    combine_rows(xp, xp.multiply, out, ids, rows)
    return result


@kernel("UnsortedSegmentMax", fresh=True, host=("num_segments",))
def unsorted_segment_max(xp: Any, data: Value, segment_ids: Value, num_segments: Value) -> Any:
    """The largest of the rows by id; the smallest finite number where an id does not occur.

    A NaN is the largest until the next row of its id takes its place, as in TensorFlow.
    """
    return _extreme(xp, xp.maximum, as_dtype(data.dtype).min, data, segment_ids, num_segments)


@kernel("UnsortedSegmentMin", fresh=True, host=("num_segments",))
def unsorted_segment_min(xp: Any, data: Value, segment_ids: Value, num_segments: Value) -> Any:
    """The smallest of the rows by id, with NaN as in `unsorted_segment_max`; else the largest number."""
    return _extreme(xp, xp.minimum, as_dtype(data.dtype).max, data, segment_ids, num_segments)


def _extreme(
    xp: Any, combine: Any, initial: Any, data: Value, segment_ids: Value, num_segments: Value
) -> Any:
    rows, ids, count = _unsorted(xp, data, segment_ids, num_segments)
    out, result = _output(xp, ids, count, rows, initial)
    unknown = rows != rows
    if in_host_memory(ids) and unknown.any():
        place = xp.arange(ids.size).reshape(-1, *[1] * (rows.ndim - 1))
        last_unknown, last = xp.full(out.shape, -1), xp.full((len(out), *[1] * (rows.ndim - 1)), -1)
        combine_rows(xp, xp.maximum, last_unknown, ids, xp.where(unknown, place, -1))
        combine_rows(xp, xp.maximum, last, ids, place)
        rows = xp.where(place > last_unknown[ids], rows, rows.dtype.type(initial))
        combine_rows(xp, combine, out, ids, rows)
        out[...] = xp.where((last_unknown == last) & (last >= 0), rows.dtype.type(np.nan), out)
    else:
        combine_rows(xp, combine, out, ids, rows)
    return result


# Reductions over segments whose number is given. Ids are in order, which is of no consequence here.

kernel("SegmentSumV2", fresh=True, host=("num_segments",))(unsorted_segment_sum)
kernel("SegmentProdV2", fresh=True, host=("num_segments",))(unsorted_segment_prod)
kernel("SegmentMaxV2", fresh=True, host=("num_segments",))(unsorted_segment_max)
kernel("SegmentMinV2", fresh=True, host=("num_segments",))(unsorted_segment_min)


# Segments of picked rows: what an embedding look-up with several ids an example does, and its gradient.

#: Rows of a picked block of this many elements are gathered at once; more, a block at a time.
_BLOCK_ELEMENTS: Final = 1 << 20


def _sums(
    xp: Any, data: Value, indices: Array, segment_ids: Array, num_segments: Value | None
) -> tuple[Array, Array]:
    """(sums of data[indices] by sorted segment, number of rows in each segment)."""
    array = to_array(data)
    if not array.ndim:
        raise InvalidArgumentError("data must be at least rank 1, but is a scalar")
    if indices.ndim != 1:
        raise InvalidArgumentError(f"indices should be a vector, but has shape {brackets(indices.shape)}")
    if segment_ids.ndim == 1 and segment_ids.size != indices.size:
        raise InvalidArgumentError(
            f"segment_ids and indices should have same size: {segment_ids.size} vs. {indices.size}"
        )
    check_sorted(segment_ids, indices.size)
    if num_segments is None:
        count = segments_of(segment_ids)
    else:
        count = scalar(num_segments, "num_segments")
        if count < 0:
            raise InvalidArgumentError(f"num_segments must be non-negative, but is {count}")
        if indices.size:
            refuse(segment_ids[-1] >= count, lambda: _too_many(segment_ids, count))
    check_indices(indices, array.shape[0])
    out = blank(xp, (count, *array.shape[1:]), array.dtype)
    width = max(1, out.size // max(1, count))
    step = max(1, _BLOCK_ELEMENTS // width)
    for start in range(0, indices.size, step):
        part = slice(start, start + step)
        add_rows(xp, out, segment_ids[part], pick(array, indices[part]))
    return out, count_rows(xp, segment_ids, count)


def _too_many(segment_ids: Array, wanted: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"segment ids must be < num_segments: segment_ids[{segment_ids.size - 1}] = {segment_ids[-1]} "
        f"with num_segments = {wanted}"
    )


def _column(values: Array, like: Array) -> Array:
    """A vector as a column that broadcasts over the rows of `like`, in its dtype."""
    return values.astype(like.dtype).reshape((-1,) + (1,) * (like.ndim - 1))


@kernel("SparseSegmentSum", looks=True)
def sparse_segment_sum(xp: Any, data: Value, indices: Array, segment_ids: Array) -> Any:
    """Sums of data[indices] over runs of equal ids.

    data          (N, S...)
    indices       (M,) int32 or int64 in [0, N)
    segment_ids   (M,) int32, never falling
    returns       (last id + 1, S...); 0 where an id does not occur
    """
    return _sums(xp, data, indices, segment_ids, None)[0]


@kernel("SparseSegmentSumWithNumSegments", host=("num_segments",))
def sparse_segment_sum_with_num_segments(
    xp: Any, data: Value, indices: Array, segment_ids: Array, num_segments: Value
) -> Any:
    """SparseSegmentSum with the number of rows of the output given."""
    return _sums(xp, data, indices, segment_ids, num_segments)[0]


def _mean(xp: Any, sums: Array, counts: Array) -> Any:
    sums /= _column(xp.maximum(counts, 1), sums)
    return sums


def _sqrt_n(xp: Any, sums: Array, counts: Array) -> Any:
    sums /= xp.sqrt(_column(xp.maximum(counts, 1), sums))
    return sums


@kernel("SparseSegmentMean", looks=True)
def sparse_segment_mean(xp: Any, data: Value, indices: Array, segment_ids: Array) -> Any:
    """SparseSegmentSum divided by the number of rows of each segment."""
    return _mean(xp, *_sums(xp, data, indices, segment_ids, None))


@kernel("SparseSegmentMeanWithNumSegments", host=("num_segments",))
def sparse_segment_mean_with_num_segments(
    xp: Any, data: Value, indices: Array, segment_ids: Array, num_segments: Value
) -> Any:
    """SparseSegmentMean with the number of rows of the output given."""
    return _mean(xp, *_sums(xp, data, indices, segment_ids, num_segments))


@kernel("SparseSegmentSqrtN", looks=True)
def sparse_segment_sqrt_n(xp: Any, data: Value, indices: Array, segment_ids: Array) -> Any:
    """SparseSegmentSum divided by the square root of the number of rows of each segment."""
    return _sqrt_n(xp, *_sums(xp, data, indices, segment_ids, None))


@kernel("SparseSegmentSqrtNWithNumSegments", host=("num_segments",))
def sparse_segment_sqrt_n_with_num_segments(
    xp: Any, data: Value, indices: Array, segment_ids: Array, num_segments: Value
) -> Any:
    """SparseSegmentSqrtN with the number of rows of the output given."""
    return _sqrt_n(xp, *_sums(xp, data, indices, segment_ids, num_segments))


def _gradient(xp: Any, grad: Value, indices: Array, segment_ids: Array, size: int, power: float) -> Any:
    rows = to_array(grad)
    if segment_ids.ndim != 1 or indices.ndim != 1 or indices.size != segment_ids.size:
        raise InvalidArgumentError(
            f"indices {brackets(indices.shape)} and segment_ids {brackets(segment_ids.shape)} "
            "should be vectors of one size"
        )
    out = blank(xp, (size, *rows.shape[1:]), rows.dtype)
    if not indices.size:
        return out
    check_indices(segment_ids, len(rows), "segment_ids")
    check_indices(indices, size)
    counts = count_rows(xp, segment_ids, len(rows))
    scaled = rows * _column(xp.maximum(counts, 1) ** power, rows)
    add_rows(xp, out, indices, pick(scaled, segment_ids))
    return out


@kernel("SparseSegmentMeanGrad", host=("output_dim0",))
def sparse_segment_mean_grad(
    xp: Any, grad: Value, indices: Array, segment_ids: Array, output_dim0: Value
) -> Any:
    """(output_dim0, S...): each row of grad, divided by its segment's rows, added at what was picked."""
    return _gradient(xp, grad, indices, segment_ids, scalar(output_dim0, "output_dim0"), -1.0)


@kernel("SparseSegmentSqrtNGrad", host=("output_dim0",))
def sparse_segment_sqrt_n_grad(
    xp: Any, grad: Value, indices: Array, segment_ids: Array, output_dim0: Value
) -> Any:
    """As SparseSegmentMeanGrad, divided by the square root of the number of rows."""
    return _gradient(xp, grad, indices, segment_ids, scalar(output_dim0, "output_dim0"), -0.5)


@kernel("SparseSegmentSumGrad", host=("output_dim0",))
def sparse_segment_sum_grad(
    xp: Any, grad: Value, indices: Array, segment_ids: Array, output_dim0: Value
) -> Any:
    """As SparseSegmentMeanGrad, undivided."""
    return _gradient(xp, grad, indices, segment_ids, scalar(output_dim0, "output_dim0"), 0.0)


def _gradient_rows(
    xp: Any, grad: Value, indices: Array, segment_ids: Array, output_dim0: Value, power: float
) -> tuple[Any, Any]:
    check_indices(indices, scalar(output_dim0, "dense_output_dim0"))
    rows, places = xp.unique(indices, return_inverse=True)
    return _gradient(xp, grad, places.reshape(indices.shape), segment_ids, len(rows), power), rows


@kernel("SparseSegmentMeanGradV2", host=("dense_output_dim0",), looks=True)
def sparse_segment_mean_grad_v2(
    xp: Any, grad: Value, indices: Array, segment_ids: Array, dense_output_dim0: Value
) -> Any:
    """SparseSegmentMeanGrad of the rows that were picked alone, and which they are, in order."""
    return _gradient_rows(xp, grad, indices, segment_ids, dense_output_dim0, -1.0)


@kernel("SparseSegmentSqrtNGradV2", host=("dense_output_dim0",), looks=True)
def sparse_segment_sqrt_n_grad_v2(
    xp: Any, grad: Value, indices: Array, segment_ids: Array, dense_output_dim0: Value
) -> Any:
    """SparseSegmentSqrtNGrad of the rows that were picked alone, and which they are, in order."""
    return _gradient_rows(xp, grad, indices, segment_ids, dense_output_dim0, -0.5)


@kernel("SparseSegmentSumGradV2", host=("dense_output_dim0",), looks=True)
def sparse_segment_sum_grad_v2(
    xp: Any, grad: Value, indices: Array, segment_ids: Array, dense_output_dim0: Value
) -> Any:
    """SparseSegmentSumGrad of the rows that were picked alone, and which they are, in order."""
    return _gradient_rows(xp, grad, indices, segment_ids, dense_output_dim0, 0.0)
