"""Quantisation and its opposite in one: numbers rounded to those that so many bits could tell."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merge, unchanged

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
    "axis: int = -1",
    Newer(("axis",)),
    shape=unchanged,
)
define(
    "QuantizeAndDequantizeV3(input, input_min, input_max: T, num_bits: int32) -> output: T",
    "signed_input, range_given: bool = true; T: floattype; narrow_range: bool = false; axis: int = -1",
    Newer(("axis",)),
    shape=unchanged,
)
define(
    "QuantizeAndDequantizeV4(input, input_min, input_max: T) -> output: T",
    "signed_input: bool = true; num_bits: int = 8; range_given: bool = false; T: floattype",
    "round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'; narrow_range: bool = false",
    "axis: int = -1",
    shape=unchanged,
)


@define(
    "QuantizeAndDequantizeV4Grad(gradients, input, input_min, input_max: T) "
    "-> input_backprop, input_min_backprop, input_max_backprop: T",
    "T: floattype; axis: int = -1",
)
def gradient(c: ShapeContext) -> Shapes:
    """Gradients shaped like the input and like its range."""
    return [merge(c, (0, 1)), c.input(2), c.input(3)]
