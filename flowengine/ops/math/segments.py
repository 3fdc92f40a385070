"""Reductions of rows, or of gathered rows, that carry the same id."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    dimension_value,
    prefix,
    ranked,
    ranked_at_least,
    replace_dim,
    suffix,
    vector,
)

# Reductions of rows that carry the same id.


@define("SegmentSum(data: T, segment_ids: Tindices) -> output: T", "T: numbertype; Tindices: indextype")
@define("SegmentMean(data: T, segment_ids: Tindices) -> output: T", "T: numbertype; Tindices: indextype")
@define("SegmentProd(data: T, segment_ids: Tindices) -> output: T", "T: numbertype; Tindices: indextype")
@define("SegmentMin(data: T, segment_ids: Tindices) -> output: T", "T: realnumbertype; Tindices: indextype")
@define("SegmentMax(data: T, segment_ids: Tindices) -> output: T", "T: realnumbertype; Tindices: indextype")
def segment_reduction(c: ShapeContext) -> Shapes:
    """(N, ...), (N) -> (segments, ...), as many as the last id says."""
    data = ranked_at_least(c, 0, 1)
    ranked(c, 1, 1)
    return [replace_dim(data, 0, None)]


@define(
    "UnsortedSegmentSum(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T",
    "T: numbertype; Tindices: shortindextype; Tnumsegments: indextype = int32",
)
@define(
    "UnsortedSegmentProd(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T",
    "T: numbertype; Tindices: indextype; Tnumsegments: indextype = int32",
)
@define(
    "UnsortedSegmentMin, "
    "UnsortedSegmentMax(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T",
    "T: realnumbertype; Tindices: indextype; Tnumsegments: indextype = int32",
)
def unsorted_segments(c: ShapeContext) -> Shapes:
    """data (ids..., rest...), ids -> (num_segments, rest...)"""
    data, ids = c.input(0), c.input(1)
    count = dimension_value(c, 2)
    if data.dims is None or ids.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(ids.dims)
    if not prefix(data, rank).is_compatible_with(ids):
        raise InvalidArgumentError(f"data.shape = {data} does not start with segment_ids.shape = {ids}")
    return [vector(count).concatenate(suffix(data, rank))]


# Reductions of rows that carry the same id, as many rows as is said; ids in order.

_TYPES: Final = "Tindices: indextype; Tnumsegments: indextype = int32"

define(
    "SegmentSumV2, SegmentProdV2(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T",
    f"T: numbertype; {_TYPES}",
    shape=unsorted_segments,
)
define(
    "SegmentMinV2, SegmentMaxV2(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T",
    f"T: realnumbertype; {_TYPES}",
    shape=unsorted_segments,
)


# Reductions of picked rows by segment, as embedding look-ups need them, and their gradients.

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
