"""Runs of neighbouring strings, and strings of one segment, joined."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, dimension_value, ranked, ranked_at_least, suffix, vector


@define(
    "StringNGrams(data: string, data_splits: Tsplits) -> ngrams: string, ngrams_splits: Tsplits",
    "separator: string; ngram_widths: list(int) >= 0; left_pad, right_pad: string; pad_width: int",
    "preserve_short_sequences: bool; Tsplits: indextype = int64",
    NotDifferentiable(),
)
def ngrams(c: ShapeContext) -> Shapes:
    ranked(c, 0, 1)
    ranked(c, 1, 1)
    return [VECTOR, VECTOR]


@define(
    "UnsortedSegmentJoin(inputs: string, segment_ids: Tindices, num_segments: Tnumsegments) "
    "-> output: string",
    "separator: string = ''; Tindices: indextype; Tnumsegments: indextype = int32",
    NotDifferentiable(),
)
def segment_join(c: ShapeContext) -> Shapes:
    data, ids = c.input(0), c.input(1)
    count = dimension_value(c, 2)
    if data.dims is None or ids.dims is None:
        return [UNKNOWN_SHAPE]
    ranked_at_least(c, 0, len(ids.dims))
    return [vector(count).concatenate(suffix(data, len(ids.dims)))]
