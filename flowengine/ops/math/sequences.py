"""Sequences of numbers, arithmetic on shapes, counting."""

from __future__ import annotations

import math

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    check_scalars,
    dimension_value,
    merge_dims,
    ranked,
    scalar_value,
    unchanged,
    vector,
)


@define("BroadcastGradientArgs(s0, s1: T) -> r0, r1: T", "T: indextype = int32", NotDifferentiable())
def broadcast_gradient_args(c: ShapeContext) -> Shapes:
    """The axes to sum over, as many as differ."""
    ranked(c, 0, 1)
    ranked(c, 1, 1)
    return [VECTOR, VECTOR]


@define(
    "LinSpace(start, stop: T, num: Tidx) -> output: T",
    "T: {bfloat16, float, double}; Tidx: indextype = int32",
    NotDifferentiable(),
)
def lin_space(c: ShapeContext) -> Shapes:
    check_scalars(c, 0, 1, 2)
    count = scalar_value(c, 2)
    if count is not None and count <= 0:
        raise InvalidArgumentError(f"Requires num > 0: {count}")
    return [vector(count)]


@define(
    "Range(start, limit, delta: Tidx) -> output: Tidx",
    "Tidx: {bfloat16, half, float, double, int32, int64} = int32",
    NotDifferentiable(),
)
def range_of(c: ShapeContext) -> Shapes:
    check_scalars(c, 0, 1, 2)
    values = [c.input_value(i) for i in range(3)]
    if any(v is None for v in values):
        return [VECTOR]
    start, limit, delta = (to_array(v).item() for v in values)
    if delta == 0:
        raise InvalidArgumentError("Requires delta != 0")
    if not all(map(math.isfinite, (start, limit, delta))):
        return [VECTOR]
    if (start > limit) if delta > 0 else (start < limit):
        sign, relation = (">", "<=") if delta > 0 else ("<", ">=")
        raise InvalidArgumentError(
            f"Requires start {relation} limit when delta {sign} 0: start = {start}, limit = {limit}"
        )
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int):
        return [vector(-((start - limit) // delta))]
    # Rounding as at run time: in the type's own precision for half types, in double otherwise.
    return [vector(math.ceil(abs((limit - start) / delta)))] if c.output_types[0].size >= 4 else [VECTOR]


define(
    "Bucketize(input: T) -> output: int32",
    "T: {int32, int64, float, double}; boundaries: list(float)",
    NotDifferentiable(),
    shape=unchanged,
)


@define("Bincount(arr, size: int32, weights: T) -> bins: T", "T: {int32, int64, float, double}")
def bincount(c: ShapeContext) -> Shapes:
    return [vector(dimension_value(c, 1))]


@define(
    "HistogramFixedWidth(values, value_range: T, nbins: int32) -> out: dtype",
    "T: {int32, int64, float, double}; dtype: indextype = int32",
    NotDifferentiable(),
)
def histogram(c: ShapeContext) -> Shapes:
    bounds = ranked(c, 1, 1)
    merge_dims(bounds[0], 2, "The length of value_range and 2")
    return [vector(dimension_value(c, 2))]
