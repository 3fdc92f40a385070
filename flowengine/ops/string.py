"""Strings."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    add_dims,
    axis_of,
    dimension_value,
    ranked,
    ranked_at_least,
    scalars,
    suffix,
    unchanged,
    vector,
    vectors,
)

define(
    "AsString",
    inputs=["input: T"],
    outputs=["output: string"],
    attrs=[
        "T: {int8, int16, int32, int64, complex64, complex128, float, double, bool}",
        "precision: int = -1",
        "scientific: bool = false",
        "shortest: bool = false",
        "width: int = -1",
        'fill: string = ""',
    ],
    shape=unchanged,
)
define("DecodeBase64", inputs=["input: string"], outputs=["output: string"], shape=unchanged)
define(
    "EncodeBase64",
    inputs=["input: string"],
    outputs=["output: string"],
    attrs=["pad: bool = false"],
    shape=unchanged,
)
define(
    "RegexFullMatch", inputs=["input: string", "pattern: string"], outputs=["output: bool"], shape=unchanged
)
define(
    "RegexReplace",
    inputs=["input: string", "pattern: string", "rewrite: string"],
    outputs=["output: string"],
    attrs=["replace_global: bool = true"],
    shape=unchanged,
)
define(
    "StaticRegexFullMatch",
    inputs=["input: string"],
    outputs=["output: bool"],
    attrs=["pattern: string"],
    shape=unchanged,
)
define(
    "StaticRegexReplace",
    inputs=["input: string"],
    outputs=["output: string"],
    attrs=["pattern: string", "rewrite: string", "replace_global: bool = true"],
    shape=unchanged,
)
define(
    "StringLength",
    inputs=["input: string"],
    outputs=["output: int32"],
    attrs=["unit: {'BYTE', 'UTF8_CHAR'} = \"BYTE\""],
    shape=unchanged,
)
define(
    "StringLower",
    inputs=["input: string"],
    outputs=["output: string"],
    attrs=['encoding: string = ""'],
    shape=unchanged,
)
define("StringStrip", inputs=["input: string"], outputs=["output: string"], shape=unchanged)
define(
    "StringUpper",
    inputs=["input: string"],
    outputs=["output: string"],
    attrs=['encoding: string = ""'],
    shape=unchanged,
)
define(
    "StringToHashBucket",
    inputs=["string_tensor: string"],
    outputs=["output: int64"],
    attrs=["num_buckets: int >= 1"],
    shape=unchanged,
)
define(
    "StringToHashBucketFast",
    inputs=["input: string"],
    outputs=["output: int64"],
    attrs=["num_buckets: int >= 1"],
    shape=unchanged,
)
define(
    "StringToHashBucketStrong",
    inputs=["input: string"],
    outputs=["output: int64"],
    attrs=["num_buckets: int >= 1", "key: list(int)"],
    shape=unchanged,
)
define("UnicodeScript", inputs=["input: int32"], outputs=["output: int32"], shape=unchanged)
define(
    "UnicodeTranscode",
    inputs=["input: string"],
    outputs=["output: string"],
    attrs=[
        "input_encoding: string",
        "output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}",
        "errors: {'strict', 'replace', 'ignore'} = \"replace\"",
        "replacement_char: int = 65533",
        "replace_control_characters: bool = false",
    ],
    shape=unchanged,
)
define(
    "StringFormat",
    inputs=["inputs: T"],
    outputs=["output: string"],
    attrs=[
        "T: list(type) >= 0",
        'template: string = "%s"',
        'placeholder: string = "%s"',
        "summarize: int = 3",
    ],
    shape=scalars,
)


def join(c: ShapeContext) -> Sequence[TensorShape]:
    """Tensors of one shape; a scalar goes with each element."""
    shape = UNKNOWN_SHAPE
    open_rank = False
    for index in range(c.num_inputs):
        other = c.input(index)
        if other.dims is None:
            open_rank = True
        elif other.dims:
            shape = shape.merge_with(other)
    if shape.dims is None and not open_rank:
        return [SCALAR]
    return [shape]


define(
    "StringJoin",
    inputs=["inputs: N * string"],
    outputs=["output: string"],
    attrs=["N: int >= 1", 'separator: string = ""'],
    shape=join,
)


def reduce_join(c: ShapeContext) -> Sequence[TensorShape]:
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


define(
    "ReduceJoin",
    inputs=["inputs: string", "reduction_indices: int32"],
    outputs=["output: string"],
    attrs=["keep_dims: bool = false", 'separator: string = ""'],
    shape=reduce_join,
)


def string_split(c: ShapeContext) -> Sequence[TensorShape]:
    """Indices (n, 2), values (n), dense shape (2) of a sparse matrix"""
    ranked(c, 0, 1)
    return [TensorShape([None, 2]), VECTOR, vector(2)]


define(
    "StringSplit",
    inputs=["input: string", "delimiter: string"],
    outputs=["indices: int64", "values: string", "shape: int64"],
    attrs=["skip_empty: bool = true"],
    shape=string_split,
)
define(
    "StringSplitV2",
    inputs=["input: string", "sep: string"],
    outputs=["indices: int64", "values: string", "shape: int64"],
    attrs=["maxsplit: int = -1"],
    shape=string_split,
)


def substr(c: ShapeContext) -> Sequence[TensorShape]:
    return [broadcast_shapes(c.input(0), broadcast_shapes(c.input(1), c.input(2)))]


define(
    "Substr",
    inputs=["input: string", "pos: T", "len: T"],
    outputs=["output: string"],
    attrs=["T: {int32, int64}", "unit: {'BYTE', 'UTF8_CHAR'} = \"BYTE\""],
    shape=substr,
)
define(
    "StringNGrams",
    inputs=["data: string", "data_splits: Tsplits"],
    outputs=["ngrams: string", "ngrams_splits: Tsplits"],
    attrs=[
        "separator: string",
        "ngram_widths: list(int) >= 0",
        "left_pad: string",
        "right_pad: string",
        "pad_width: int",
        "preserve_short_sequences: bool",
        "Tsplits: {int32, int64} = int64",
    ],
    shape=vectors,
)


def unicode_decode(c: ShapeContext) -> Sequence[TensorShape]:
    """Where each string's characters end, and the characters of all (and where they began)."""
    return [vector(add_dims(c.input(0).num_elements(), 1)), *[VECTOR] * (c.num_outputs - 1)]


define(
    "UnicodeDecode",
    inputs=["input: string"],
    outputs=["row_splits: Tsplits", "char_values: int32"],
    attrs=[
        "input_encoding: string",
        "errors: {'strict', 'replace', 'ignore'} = \"replace\"",
        "replacement_char: int = 65533",
        "replace_control_characters: bool = false",
        "Tsplits: {int32, int64} = int64",
    ],
    shape=unicode_decode,
)
define(
    "UnicodeDecodeWithOffsets",
    inputs=["input: string"],
    outputs=["row_splits: Tsplits", "char_values: int32", "char_to_byte_starts: int64"],
    attrs=[
        "input_encoding: string",
        "errors: {'strict', 'replace', 'ignore'} = \"replace\"",
        "replacement_char: int = 65533",
        "replace_control_characters: bool = false",
        "Tsplits: {int32, int64} = int64",
    ],
    shape=unicode_decode,
)


def unicode_encode(c: ShapeContext) -> Sequence[TensorShape]:
    """One string between every two splits."""
    ranked(c, 0, 1)
    return [vector(add_dims(ranked(c, 1, 1)[0], -1))]


define(
    "UnicodeEncode",
    inputs=["input_values: int32", "input_splits: Tsplits"],
    outputs=["output: string"],
    attrs=[
        "errors: {'ignore', 'replace', 'strict'} = \"replace\"",
        "output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}",
        "replacement_char: int = 65533",
        "Tsplits: {int32, int64} = int64",
    ],
    shape=unicode_encode,
)


def segment_join(c: ShapeContext) -> Sequence[TensorShape]:
    data, ids = c.input(0), c.input(1)
    count = dimension_value(c, 2)
    if data.dims is None or ids.dims is None:
        return [UNKNOWN_SHAPE]
    return [vector(count).concatenate(suffix(data, len(ids.dims)))]


define(
    "UnsortedSegmentJoin",
    inputs=["inputs: string", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: string"],
    attrs=['separator: string = ""', "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
    shape=segment_join,
)


def fingerprint(c: ShapeContext) -> Sequence[TensorShape]:
    shape = ranked_at_least(c, 0, 1)
    method = c.input_value(1)
    width = 8 if method is not None and to_array(method).item() == b"farmhash64" else None
    return [TensorShape([shape[0], width])]


define(
    "Fingerprint",
    inputs=["data: T", "method: string"],
    outputs=["fingerprint: uint8"],
    attrs=["T: type"],
    shape=fingerprint,
)
