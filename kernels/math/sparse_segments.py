"""Segments of picked rows: what an embedding look-up with several ids an example does, and its gradient."""

from __future__ import annotations

from typing import Any, Final

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import blank, brackets, scalar
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.indices import check_indices, pick
from flowengine.kernels.common.segment_sums import add_rows, count_rows
from flowengine.kernels.math.segments import check_sorted, segments_of
from flowengine.kernels.registry import kernel

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
