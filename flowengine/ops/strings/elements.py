"""Strings element by element: length, parts, case, base64, numbers."""

from __future__ import annotations

from flowengine.core.shapes import broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define("DecodeBase64(input: string) -> output: string", NotDifferentiable(), shape=unchanged)
define(
    "EncodeBase64(input: string) -> output: string", "pad: bool = false", NotDifferentiable(), shape=unchanged
)
define(
    "StringLength(input: string) -> output: int32",
    "unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "StringLower(input: string) -> output: string",
    "encoding: string = ''",
    NotDifferentiable(),
    shape=unchanged,
)
define("StringStrip(input: string) -> output: string", NotDifferentiable(), shape=unchanged)
define(
    "StringUpper(input: string) -> output: string",
    "encoding: string = ''",
    NotDifferentiable(),
    shape=unchanged,
)


@define(
    "Substr(input: string, pos, len: T) -> output: string",
    "T: indextype; unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'",
    NotDifferentiable(),
)
def substr(c: ShapeContext) -> Shapes:
    return [broadcast_shapes(c.input(0), broadcast_shapes(c.input(1), c.input(2)))]


define(
    "StringToNumber(string_tensor: string) -> output: out_type",
    "out_type: {float, double, int32, int64, uint32, uint64} = float",
    NotDifferentiable(),
    shape=unchanged,
)
