"""Quantisation and its opposite in one, for inference and for training."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    merge,
    merge_dims,
    merged,
    ranked,
    ranked_at_least,
    unchanged,
    vector,
)

# Quantisation and its opposite in one: numbers rounded to those that so many bits could tell.

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


# Quantisation and its opposite in one, for training, with gradients.

define(
    "FakeQuantWithMinMaxArgs(inputs: float) -> outputs: float",
    "min: float = -6.0; max: float = 6.0; num_bits: int = 8; narrow_range: bool = false",
    shape=unchanged,
)
define(
    "FakeQuantWithMinMaxVars, FakeQuantWithMinMaxVarsPerChannel(inputs, min, max: float) -> outputs: float",
    "num_bits: int = 8; narrow_range: bool = false",
    shape=unchanged,
)
define(
    "FakeQuantWithMinMaxArgsGradient(gradients, inputs: float) -> backprops: float",
    "min: float = -6.0; max: float = 6.0; num_bits: int = 8; narrow_range: bool = false",
    shape=merged,
)


@define(
    "FakeQuantWithMinMaxVarsGradient(gradients, inputs, min, max: float) "
    "-> backprops_wrt_input, backprop_wrt_min, backprop_wrt_max: float",
    "num_bits: int = 8; narrow_range: bool = false",
)
def fake_quant_grad(c: ShapeContext) -> Shapes:
    return [merge(c, (0, 1)), SCALAR, SCALAR]


@define(
    "FakeQuantWithMinMaxVarsPerChannelGradient(gradients, inputs, min, max: float) "
    "-> backprops_wrt_input, backprop_wrt_min, backprop_wrt_max: float",
    "num_bits: int = 8; narrow_range: bool = false",
)
def fake_quant_channel_grad(c: ShapeContext) -> Shapes:
    """Gradients of the inputs and of the bounds, one bound for each channel."""
    ranked_at_least(c, 0, 1)
    ranked_at_least(c, 1, 1)
    shape = merge(c, (0, 1))
    channels = vector(merge_dims(shape[-1], ranked(c, 2, 1)[0], "The channels and the bounds"))
    return [shape, channels, channels]
