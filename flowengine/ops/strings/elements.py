"""Strings element by element, and their hashes."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.shapes import TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked_at_least, unchanged

# Strings element by element: length, parts, case, base64, numbers.

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


# Strings into buckets by hash.

define(
    "StringToHashBucket(string_tensor: string) -> output: int64",
    "num_buckets: int >= 1",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "StringToHashBucketFast(input: string) -> output: int64",
    "num_buckets: int >= 1",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "StringToHashBucketStrong(input: string) -> output: int64",
    "num_buckets: int >= 1; key: list(int)",
    NotDifferentiable(),
    shape=unchanged,
)


@define("Fingerprint(data: T, method: string) -> fingerprint: uint8", "T: type", NotDifferentiable())
def fingerprint(c: ShapeContext) -> Shapes:
    shape = ranked_at_least(c, 0, 1)
    method = c.input_value(1)
    width = 8 if method is not None and to_array(method).item() == b"farmhash64" else None
    return [TensorShape([shape[0], width])]
