"""Strings."""

from __future__ import annotations

from flowengine.ops.registry import define

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
)
define("DecodeBase64", inputs=["input: string"], outputs=["output: string"])
define("EncodeBase64", inputs=["input: string"], outputs=["output: string"], attrs=["pad: bool = false"])
define(
    "ReduceJoin",
    inputs=["inputs: string", "reduction_indices: int32"],
    outputs=["output: string"],
    attrs=["keep_dims: bool = false", 'separator: string = ""'],
)
define("RegexFullMatch", inputs=["input: string", "pattern: string"], outputs=["output: bool"])
define(
    "RegexReplace",
    inputs=["input: string", "pattern: string", "rewrite: string"],
    outputs=["output: string"],
    attrs=["replace_global: bool = true"],
)
define("StaticRegexFullMatch", inputs=["input: string"], outputs=["output: bool"], attrs=["pattern: string"])
define(
    "StaticRegexReplace",
    inputs=["input: string"],
    outputs=["output: string"],
    attrs=["pattern: string", "rewrite: string", "replace_global: bool = true"],
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
)
define(
    "StringJoin",
    inputs=["inputs: N * string"],
    outputs=["output: string"],
    attrs=["N: int >= 1", 'separator: string = ""'],
)
define(
    "StringLength",
    inputs=["input: string"],
    outputs=["output: int32"],
    attrs=["unit: {'BYTE', 'UTF8_CHAR'} = \"BYTE\""],
)
define("StringLower", inputs=["input: string"], outputs=["output: string"], attrs=['encoding: string = ""'])
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
)
define(
    "StringSplit",
    inputs=["input: string", "delimiter: string"],
    outputs=["indices: int64", "values: string", "shape: int64"],
    attrs=["skip_empty: bool = true"],
)
define(
    "StringSplitV2",
    inputs=["input: string", "sep: string"],
    outputs=["indices: int64", "values: string", "shape: int64"],
    attrs=["maxsplit: int = -1"],
)
define("StringStrip", inputs=["input: string"], outputs=["output: string"])
define(
    "StringToHashBucket",
    inputs=["string_tensor: string"],
    outputs=["output: int64"],
    attrs=["num_buckets: int >= 1"],
)
define(
    "StringToHashBucketFast",
    inputs=["input: string"],
    outputs=["output: int64"],
    attrs=["num_buckets: int >= 1"],
)
define(
    "StringToHashBucketStrong",
    inputs=["input: string"],
    outputs=["output: int64"],
    attrs=["num_buckets: int >= 1", "key: list(int)"],
)
define("StringUpper", inputs=["input: string"], outputs=["output: string"], attrs=['encoding: string = ""'])
define(
    "Substr",
    inputs=["input: string", "pos: T", "len: T"],
    outputs=["output: string"],
    attrs=["T: {int32, int64}", "unit: {'BYTE', 'UTF8_CHAR'} = \"BYTE\""],
)
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
)
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
)
define("UnicodeScript", inputs=["input: int32"], outputs=["output: int32"])
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
)
define(
    "UnsortedSegmentJoin",
    inputs=["inputs: string", "segment_ids: Tindices", "num_segments: Tnumsegments"],
    outputs=["output: string"],
    attrs=['separator: string = ""', "Tindices: {int32, int64}", "Tnumsegments: {int32, int64} = int32"],
)
