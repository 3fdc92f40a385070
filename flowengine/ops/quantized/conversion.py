"""Numbers to quantised ones and back, and the ranges that this needs."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    merge_dims,
    ranked,
    ranked_at_least,
    scalars,
    vector,
)


@define(
    "Dequantize(input: T, min_range, max_range: float) -> output: dtype",
    "T: quantizedtype; mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'",
    "narrow_range: bool = false; axis: int = -1; dtype: {bfloat16, float} = float",
    Newer(("narrow_range", "axis", "dtype")),
    NotDifferentiable(),
)
def dequantized(c: ShapeContext) -> Shapes:
    """Numbers for codes; ranges are numbers, or vectors where they belong to an axis."""
    if c.attrs["axis"] == -1:
        check_scalars(c, 1, 2)
    return [c.input(0)]


@define(
    "QuantizeV2(input, min_range, max_range: float) -> output: T, output_min, output_max: float",
    "T: quantizedtype; mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'",
    "round_mode: {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'} = 'HALF_AWAY_FROM_ZERO'",
    "narrow_range: bool = false; axis: int = -1; ensure_minimum_range: float = 0.01",
    Newer(("narrow_range", "axis", "ensure_minimum_range")),
    NotDifferentiable(),
)
def quantize(c: ShapeContext) -> Shapes:
    """Codes and their range: two numbers, or two for each index of the axis."""
    axis: int = c.attrs["axis"]
    if axis < -1:
        raise InvalidArgumentError(f"axis should be at least -1, got {axis}")
    if axis == -1:
        check_scalars(c, 1, 2)
        return [c.input(0), SCALAR, SCALAR]
    shape = ranked_at_least(c, 0, axis + 1)
    ends = vector(merge_dims(shape[axis], ranked(c, 1, 1)[0], "The axis and the range"))
    return [shape, ends, ends]


@define(
    "QuantizeDownAndShrinkRange(input: Tinput, input_min, input_max: float) "
    "-> output: out_type, output_min, output_max: float",
    "Tinput, out_type: quantizedtype",
    NotDifferentiable(),
)
@define(
    "Requantize(input: Tinput, input_min, input_max, requested_output_min, requested_output_max: float) "
    "-> output: out_type, output_min, output_max: float",
    "Tinput, out_type: quantizedtype",
    NotDifferentiable(),
)
def with_range(c: ShapeContext) -> Shapes:
    """A tensor of the same shape and its two bounds."""
    check_scalars(c, *range(1, c.num_inputs))
    return [c.input(0), SCALAR, SCALAR]


def with_own_range(c: ShapeContext) -> Shapes:
    """A tensor of the same shape and its two bounds, from those of its channels."""
    return [c.input(0), SCALAR, SCALAR]


def bounds(c: ShapeContext) -> Shapes:
    """Two bounds of a tensor that has two."""
    check_scalars(c, 1, 2)
    return [SCALAR, SCALAR]


define(
    "RequantizationRange(input: Tinput, input_min, input_max: float) -> output_min, output_max: float",
    "Tinput: quantizedtype",
    NotDifferentiable(),
    shape=bounds,
)
define(
    "RequantizationRangePerChannel(input: T, input_min, input_max: float) -> output_min, output_max: float",
    "T: quantizedtype = qint32; clip_value_max: float",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "RequantizePerChannel(input: T, input_min, input_max, requested_output_min, "
    "requested_output_max: float) -> output: out_type, output_min, output_max: float",
    "T: quantizedtype = qint32; out_type: quantizedtype = quint8",
    NotDifferentiable(),
    shape=with_own_range,
)
