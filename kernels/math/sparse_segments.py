"""Segments of picked rows: what an embedding look-up with several ids an example does, and its gradient."""

from __future__ import annotations

from typing import Final

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import blank, brackets, check_indices, scalar
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.math.segments import sorted_ids
from flowengine.kernels.registry import kernel

#: Rows of a picked block of this many elements are gathered at once; more, a block at a time.
_BLOCK_ELEMENTS: Final = 1 << 20


def _sums(data: Value, indices: Array, segment_ids: Array, num_segments: Value | None) -> tuple[Array, Array]:
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
    count = sorted_ids(segment_ids, indices.size)
    if num_segments is not None:
        wanted = scalar(num_segments, "num_segments")
        if wanted < 0:
            raise InvalidArgumentError(f"num_segments must be non-negative, but is {wanted}")
        if count > wanted:
            raise InvalidArgumentError(
                f"segment ids must be < num_segments: segment_ids[{indices.size - 1}] = {count - 1} "
                f"with num_segments = {wanted}"
            )
        count = wanted
    check_indices(indices, array.shape[0])
    out = blank((count, *array.shape[1:]), array.dtype)
    width = max(1, out.size // max(1, count))
    step = max(1, _BLOCK_ELEMENTS // width)
    for start in range(0, indices.size, step):
        part = slice(start, start + step)
        add_rows(out, segment_ids[part], array.take(indices[part], 0, None, "clip"))
    return out, np.bincount(segment_ids, minlength=count)


def _column(values: Array, like: Array) -> Array:
    """A vector as a column that broadcasts over the rows of `like`, in its dtype."""
    return values.astype(like.dtype).reshape((-1,) + (1,) * (like.ndim - 1))


@kernel("SparseSegmentSum")
def sparse_segment_sum(data: Value, indices: Array, segment_ids: Array) -> Array:
    """Sums of data[indices] over runs of equal ids.

    data          (N, S...)
    indices       (M,) int32 or int64 in [0, N)
    segment_ids   (M,) int32, never falling
    returns       (last id + 1, S...); 0 where an id does not occur
    """
    return _sums(data, indices, segment_ids, None)[0]


@kernel("SparseSegmentSumWithNumSegments", host=("num_segments",))
def sparse_segment_sum_with_num_segments(
    data: Value, indices: Array, segment_ids: Array, num_segments: Value
) -> Array:
    """SparseSegmentSum with the number of rows of the output given."""
    return _sums(data, indices, segment_ids, num_segments)[0]


def _mean(sums: Array, counts: Array) -> Array:
    sums /= _column(np.maximum(counts, 1), sums)
    return sums


def _sqrt_n(sums: Array, counts: Array) -> Array:
    sums /= np.sqrt(_column(np.maximum(counts, 1), sums))
    return sums


@kernel("SparseSegmentMean")
def sparse_segment_mean(data: Value, indices: Array, segment_ids: Array) -> Array:
    """SparseSegmentSum divided by the number of rows of each segment."""
    return _mean(*_sums(data, indices, segment_ids, None))


@kernel("SparseSegmentMeanWithNumSegments", host=("num_segments",))
def sparse_segment_mean_with_num_segments(
    data: Value, indices: Array, segment_ids: Array, num_segments: Value
) -> Array:
    """SparseSegmentMean with the number of rows of the output given."""
    return _mean(*_sums(data, indices, segment_ids, num_segments))


@kernel("SparseSegmentSqrtN")
def sparse_segment_sqrt_n(data: Value, indices: Array, segment_ids: Array) -> Array:
    """SparseSegmentSum divided by the square root of the number of rows of each segment."""
    return _sqrt_n(*_sums(data, indices, segment_ids, None))


@kernel("SparseSegmentSqrtNWithNumSegments", host=("num_segments",))
def sparse_segment_sqrt_n_with_num_segments(
    data: Value, indices: Array, segment_ids: Array, num_segments: Value
) -> Array:
    """SparseSegmentSqrtN with the number of rows of the output given."""
    return _sqrt_n(*_sums(data, indices, segment_ids, num_segments))


def _gradient(grad: Value, indices: Array, segment_ids: Array, output_dim0: Value, power: float) -> Array:
    rows = to_array(grad)
    if segment_ids.ndim != 1 or indices.ndim != 1 or indices.size != segment_ids.size:
        raise InvalidArgumentError(
            f"indices {brackets(indices.shape)} and segment_ids {brackets(segment_ids.shape)} "
            "should be vectors of one size"
        )
    size = scalar(output_dim0, "output_dim0")
    out = blank((size, *rows.shape[1:]), rows.dtype)
    if not indices.size:
        return out
    check_indices(segment_ids, len(rows), "segment_ids")
    check_indices(indices, size)
    counts = np.bincount(segment_ids, minlength=len(rows))
    scaled = rows * _column(np.maximum(counts, 1) ** power, rows)
    add_rows(out, indices, scaled.take(segment_ids, 0, None, "clip"))
    return out


@kernel("SparseSegmentMeanGrad", host=("output_dim0",))
def sparse_segment_mean_grad(grad: Value, indices: Array, segment_ids: Array, output_dim0: Value) -> Array:
    """(output_dim0, S...): each row of grad, divided by its segment's rows, added at what was picked."""
    return _gradient(grad, indices, segment_ids, output_dim0, -1.0)


@kernel("SparseSegmentSqrtNGrad", host=("output_dim0",))
def sparse_segment_sqrt_n_grad(grad: Value, indices: Array, segment_ids: Array, output_dim0: Value) -> Array:
    """As SparseSegmentMeanGrad, divided by the square root of the number of rows."""
    return _gradient(grad, indices, segment_ids, output_dim0, -0.5)


@kernel("SparseSegmentSumGrad", host=("output_dim0",))
def sparse_segment_sum_grad(grad: Value, indices: Array, segment_ids: Array, output_dim0: Value) -> Array:
    """As SparseSegmentMeanGrad, undivided."""
    return _gradient(grad, indices, segment_ids, output_dim0, 0.0)
