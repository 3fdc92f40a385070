"""Unicode: scripts, encodings, code points."""

from __future__ import annotations

from typing import Final

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, add_dims, ranked, unchanged, vector

#: What becomes of bytes that are not text.
ERRORS: Final = (
    "errors: {'strict', 'replace', 'ignore'} = 'replace'; replacement_char: int = 65533; "
    "replace_control_characters: bool = false"
)

define("UnicodeScript(input: int32) -> output: int32", NotDifferentiable(), shape=unchanged)
define(
    "UnicodeTranscode(input: string) -> output: string",
    "input_encoding: string; output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}",
    ERRORS,
    NotDifferentiable(),
    shape=unchanged,
)


@define(
    "UnicodeDecode(input: string) -> row_splits: Tsplits, char_values: int32",
    "input_encoding: string",
    ERRORS,
    "Tsplits: indextype = int64",
    NotDifferentiable(),
)
@define(
    "UnicodeDecodeWithOffsets(input: string) "
    "-> row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64",
    "input_encoding: string",
    ERRORS,
    "Tsplits: indextype = int64",
    NotDifferentiable(),
)
def unicode_decode(c: ShapeContext) -> Shapes:
    """Where each string's characters end, and the characters of all (and where they began)."""
    return [vector(add_dims(c.input(0).num_elements(), 1)), *[VECTOR] * (c.num_outputs - 1)]


@define(
    "UnicodeEncode(input_values: int32, input_splits: Tsplits) -> output: string",
    "errors: {'ignore', 'replace', 'strict'} = 'replace'",
    "output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}; replacement_char: int = 65533",
    "Tsplits: indextype = int64",
    NotDifferentiable(),
)
def unicode_encode(c: ShapeContext) -> Shapes:
    """One string between every two splits."""
    ranked(c, 0, 1)
    return [vector(add_dims(ranked(c, 1, 1)[0], -1))]
