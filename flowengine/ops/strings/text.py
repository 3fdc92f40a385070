"""Text: encodings of characters, and values written as text."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, add_dims, ranked, scalars, unchanged, vector

# Unicode: scripts, encodings, code points.

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
    """Return the shapes of the ends of each string's characters, and of all characters (and their starts)."""
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


# Strings from numbers, and from other strings.

define(
    "AsString(input: T) -> output: string",
    "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128, "
    "bfloat16, half, float, double, bool, string}; precision: int = -1",
    "scientific, shortest: bool = false; width: int = -1; fill: string = ''",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "StringFormat(inputs: T) -> output: string",
    "T: list(type) >= 0; template, placeholder: string = '%s'; summarize: int = 3",
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "StringJoin(inputs: N * string) -> output: string",
    "N: int >= 1; separator: string = ''",
    NotDifferentiable(),
)
def join(c: ShapeContext) -> Shapes:
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
