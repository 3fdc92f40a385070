"""Regression by rows that never rise."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define


@define(
    "IsotonicRegression(input: T) -> output: output_dtype, segments: int32",
    "T: realnumbertype; output_dtype: {half, bfloat16, float, double} = float",
)
def isotonic(c: ShapeContext) -> Shapes:
    return [c.input(0), c.input(0)]
