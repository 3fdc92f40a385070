"""Strings split and joined, runs of neighbours, regular expressions."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    axis_of,
    dimension_value,
    ranked,
    ranked_at_least,
    suffix,
    unchanged,
    vector,
)

# Strings into parts, and parts into strings.


@define(
    "ReduceJoin(inputs: string, reduction_indices: int32) -> output: string",
    "keep_dims: bool = false; separator: string = ''",
    NotDifferentiable(),
)
def reduce_join(c: ShapeContext) -> Shapes:
    shape, axes = c.input(0), c.input_value(1)
    if shape.dims is None or axes is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    chosen = to_array(axes).reshape(-1)
    if not chosen.size:
        return [shape]
    reduced = {axis_of(axis, rank, "reduction dimension") for axis in chosen}
    if c.attrs["keep_dims"]:
        return [TensorShape([1 if i in reduced else d for i, d in enumerate(shape.dims)])]
    return [TensorShape([d for i, d in enumerate(shape.dims) if i not in reduced])]


@define(
    "StringSplit(input, delimiter: string) -> indices: int64, values: string, shape: int64",
    "skip_empty: bool = true",
    NotDifferentiable(),
)
@define(
    "StringSplitV2(input, sep: string) -> indices: int64, values: string, shape: int64",
    "maxsplit: int = -1",
    NotDifferentiable(),
)
def string_split(c: ShapeContext) -> Shapes:
    """Indices (n, 2), values (n), dense shape (2) of a sparse matrix"""
    ranked(c, 0, 1)
    return [TensorShape([None, 2]), VECTOR, vector(2)]


# Runs of neighbouring strings, and strings of one segment, joined.


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


# Regular expressions over strings.

define("RegexFullMatch(input, pattern: string) -> output: bool", NotDifferentiable(), shape=unchanged)
define(
    "RegexReplace(input, pattern, rewrite: string) -> output: string",
    "replace_global: bool = true",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "StaticRegexFullMatch(input: string) -> output: bool",
    "pattern: string",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "StaticRegexReplace(input: string) -> output: string",
    "pattern, rewrite: string; replace_global: bool = true",
    NotDifferentiable(),
    shape=unchanged,
)
