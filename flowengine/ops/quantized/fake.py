"""Quantisation and its opposite in one, for training, with gradients."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR
from flowengine.ir.opdef import ShapeContext, Shapes
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
