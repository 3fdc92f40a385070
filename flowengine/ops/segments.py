"""Reductions over segments of rows."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    dimension_value,
    prefix,
    ranked,
    ranked_at_least,
    replace_dim,
    suffix,
    vector,
)


def segment_reduction(c: ShapeContext) -> Sequence[TensorShape]:
    """(N, ...), (N) -> (segments, ...), as many as the last id says."""
    data = ranked_at_least(c, 0, 1)
    ranked(c, 1, 1)
    return [replace_dim(data, 0, None)]


define(
    "SegmentSum",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}"],
    shape=segment_reduction,
)
define(
    "SegmentMean",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}"],
    shape=segment_reduction,
)
define(
    "SegmentProd",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}"],
    shape=segment_reduction,
)
define(
    "SegmentMin",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tindices: {int32, int64}"],
    shape=segment_reduction,
)
define(
    "SegmentMax",
    inputs=["data: T", "segment_ids: Tindices"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tindices: {int32, int64}"],
    shape=segment_reduction,
)


def sparse_segment(c: ShapeContext) -> Sequence[TensorShape]:
    data = ranked_at_least(c, 0, 1)
    _check_ids(c)
    return [replace_dim(data, 0, None)]


def _check_ids(c: ShapeContext) -> None:
    """Indices and segment ids are vectors of one length."""
    ranked(c, 1, 1).merge_with(ranked(c, 2, 1))


define(
    "SparseSegmentSum",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tidx: {int32, int64} = int32"],
    shape=sparse_segment,
)
define(
    "SparseSegmentMean",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32"],
    shape=sparse_segment,
)
define(
    "SparseSegmentSqrtN",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32"],
    shape=sparse_segment,
)


def sparse_segments_counted(c: ShapeContext) -> Sequence[TensorShape]:
    data = ranked_at_least(c, 0, 1)
    _check_ids(c)
    return [replace_dim(data, 0, dimension_value(c, 3))]


define(
    "SparseSegmentSumWithNumSegments",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tidx: {int32, int64} = int32", "Tnumsegments: {int32, int64} = int32"],
    shape=sparse_segments_counted,
)
define(
    "SparseSegmentMeanWithNumSegments",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32", "Tnumsegments: {int32, int64} = int32"],
    shape=sparse_segments_counted,
)
define(
    "SparseSegmentSqrtNWithNumSegments",
    inputs=["data: T", "indices: Tidx", "segment_ids: int32", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32", "Tnumsegments: {int32, int64} = int32"],
    shape=sparse_segments_counted,
)


def sparse_segment_grad(c: ShapeContext) -> Sequence[TensorShape]:
    gradient = ranked_at_least(c, 0, 1)
    _check_ids(c)
    return [replace_dim(gradient, 0, dimension_value(c, 3))]


define(
    "SparseSegmentMeanGrad",
    inputs=["grad: T", "indices: Tidx", "segment_ids: int32", "output_dim0: int32"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32"],
    shape=sparse_segment_grad,
)
define(
    "SparseSegmentSqrtNGrad",
    inputs=["grad: T", "indices: Tidx", "segment_ids: int32", "output_dim0: int32"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "Tidx: {int32, int64} = int32"],
    shape=sparse_segment_grad,
)


def unsorted_segments(c: ShapeContext) -> Sequence[TensorShape]:
    """data (ids..., rest...), ids -> (num_segments, rest...)"""
    data, ids = c.input(0), c.input(1)
    count = dimension_value(c, 2)
    if data.dims is None or ids.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(ids.dims)
    if not prefix(data, rank).is_compatible_with(ids):
        raise InvalidArgumentError(f"data.shape = {data} does not start with segment_ids.shape = {ids}")
    return [vector(count).concatenate(suffix(data, rank))]


define(
    "UnsortedSegmentSum",
    inputs=["data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
    shape=unsorted_segments,
)
define(
    "UnsortedSegmentProd",
    inputs=["data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
    shape=unsorted_segments,
)
define(
    "UnsortedSegmentMin",
    inputs=["data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
    shape=unsorted_segments,
)
define(
    "UnsortedSegmentMax",
    inputs=["data: T", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: T"],
    attrs=["T: realnumbertype", "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
    shape=unsorted_segments,
)
