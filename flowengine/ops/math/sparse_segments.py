"""Reductions of picked rows by segment, as embedding look-ups need them, and their gradients."""

from __future__ import annotations

from typing import Final

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, dimension_value, ranked, ranked_at_least, replace_dim

#: What TensorFlow 2 says beside: whether the gradient is to be sparse. What is computed is the same.
_SPARSE_GRADIENT: Final = "sparse_gradient: bool = false"
_NEWER: Final = Newer(("Tsegmentids", "sparse_gradient"))


@define(
    "SparseSegmentSum(data: T, indices: Tidx, segment_ids: Tsegmentids) -> output: T",
    "T: realnumbertype; Tidx, Tsegmentids: indextype = int32",
    _SPARSE_GRADIENT,
    _NEWER,
)
@define(
    "SparseSegmentMean, SparseSegmentSqrtN(data: T, indices: Tidx, segment_ids: Tsegmentids) -> output: T",
    "T: {bfloat16, half, float, double}; Tidx, Tsegmentids: indextype = int32",
    _SPARSE_GRADIENT,
    _NEWER,
)
def sparse_segment(c: ShapeContext) -> Shapes:
    data = ranked_at_least(c, 0, 1)
    _check_ids(c)
    return [replace_dim(data, 0, None)]


def _check_ids(c: ShapeContext) -> None:
    """Indices and segment ids are vectors of one length."""
    ranked(c, 1, 1).merge_with(ranked(c, 2, 1))


@define(
    "SparseSegmentSumWithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids, "
    "num_segments: Tnumsegments) -> output: T",
    "T: realnumbertype; Tidx, Tnumsegments, Tsegmentids: indextype = int32",
    _SPARSE_GRADIENT,
    _NEWER,
)
@define(
    "SparseSegmentMeanWithNumSegments, "
    "SparseSegmentSqrtNWithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids, "
    "num_segments: Tnumsegments) -> output: T",
    "T: {bfloat16, half, float, double}; Tidx, Tnumsegments, Tsegmentids: indextype = int32",
    _SPARSE_GRADIENT,
    _NEWER,
)
def sparse_segments_counted(c: ShapeContext) -> Shapes:
    data = ranked_at_least(c, 0, 1)
    _check_ids(c)
    return [replace_dim(data, 0, dimension_value(c, 3))]


@define(
    "SparseSegmentMeanGrad, "
    "SparseSegmentSqrtNGrad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32) "
    "-> output: T",
    "T: {bfloat16, half, float, double}; Tidx, Tsegmentids: indextype = int32",
    _NEWER,
)
def sparse_segment_grad(c: ShapeContext) -> Shapes:
    gradient = ranked_at_least(c, 0, 1)
    _check_ids(c)
    return [replace_dim(gradient, 0, dimension_value(c, 3))]


@define(
    "SparseSegmentSumGrad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32) -> output: T",
    "T: {bfloat16, half, float, double}; Tidx, Tsegmentids: indextype = int32",
    _NEWER,
)
def sparse_segment_sum_grad(c: ShapeContext) -> Shapes:
    return sparse_segment_grad(c)


@define(
    "SparseSegmentMeanGradV2, SparseSegmentSqrtNGradV2, "
    "SparseSegmentSumGradV2(grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: int32) "
    "-> output: T, sorted_unique_indices: Tidx",
    "T: {bfloat16, half, float, double}; Tidx, Tsegmentids: indextype = int32",
    _NEWER,
)
def sparse_segment_grad_rows(c: ShapeContext) -> Shapes:
    """The rows that were picked, and which they are."""
    gradient = ranked_at_least(c, 0, 1)
    _check_ids(c)
    return [replace_dim(gradient, 0, None), VECTOR]
