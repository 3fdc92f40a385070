"""Reductions of rows that carry the same id."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
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
