"""Strings into buckets by hash."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked_at_least, unchanged

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
