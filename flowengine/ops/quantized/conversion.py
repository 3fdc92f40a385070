"""Numbers to quantised ones and back, and the ranges that this needs."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars, unchanged

define(
    "Dequantize(input: T, min_range, max_range: float) -> output: float",
    "T: quantizedtype; mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'",
    shape=unchanged,
)
define(
    "QuantizeAndDequantize(input: T) -> output: T",
    "signed_input: bool = true; num_bits: int = 8; range_given: bool = false",
    "input_min, input_max: float = 0.0; T: floattype",
    shape=unchanged,
)
define(
    "QuantizeAndDequantizeV2(input, input_min, input_max: T) -> output: T",
    "signed_input: bool = true; num_bits: int = 8; range_given: bool = false; T: floattype",
    "round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'; narrow_range: bool = false",
    shape=unchanged,
)
define(
    "QuantizeAndDequantizeV3(input, input_min, input_max: T, num_bits: int32) -> output: T",
    "signed_input, range_given: bool = true; T: floattype; narrow_range: bool = false",
    shape=unchanged,
)


@define(
    "QuantizeV2(input, min_range, max_range: float) -> output: T, output_min, output_max: float",
    "T: quantizedtype; mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'",
    "round_mode: {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'} = 'HALF_AWAY_FROM_ZERO'",
)
@define(
    "QuantizeDownAndShrinkRange(input: Tinput, input_min, input_max: float) "
    "-> output: out_type, output_min, output_max: float",
    "Tinput, out_type: quantizedtype",
)
@define(
    "Requantize(input: Tinput, input_min, input_max, requested_output_min, requested_output_max: float) "
    "-> output: out_type, output_min, output_max: float",
    "Tinput, out_type: quantizedtype",
)
def with_range(c: ShapeContext) -> Shapes:
    """A tensor of the same shape and its two bounds."""
    return [c.input(0), SCALAR, SCALAR]


define(
    "RequantizationRange(input: Tinput, input_min, input_max: float) -> output_min, output_max: float",
    "Tinput: quantizedtype",
    shape=scalars,
)
define(
    "RequantizationRangePerChannel(input: T, input_min, input_max: float) -> output_min, output_max: float",
    "T: quantizedtype = qint32; clip_value_max: float",
    shape=scalars,
)
define(
    "RequantizePerChannel(input: T, input_min, input_max, requested_output_min, "
    "requested_output_max: float) -> output: out_type, output_min, output_max: float",
    "T: quantizedtype = qint32; out_type: quantizedtype = quint8",
)
