"""Reductions of rows that carry the same id, as many rows as is said; ids in order."""

from __future__ import annotations

from typing import Final

from flowengine.ops.math.segments import unsorted_segments
from flowengine.ops.registry import define

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
