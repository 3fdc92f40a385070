"""Quantised arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.array import reshape
from flowengine.ops.matrix import mat_mul
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    merge,
    merge_dims,
    merged,
    ranked,
    ranked_at_least,
    scalars,
    unchanged,
    vector,
)

define(
    "Dequantize",
    inputs=["input: T", "min_range: float", "max_range: float"],
    outputs=["output: float"],
    attrs=["T: quantizedtype", "mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = \"MIN_COMBINED\""],
    shape=unchanged,
)
define(
    "FakeQuantWithMinMaxArgs",
    inputs=["inputs: float"],
    outputs=["outputs: float"],
    attrs=["min: float = -6.0", "max: float = 6.0", "num_bits: int = 8", "narrow_range: bool = false"],
    shape=unchanged,
)
define(
    "FakeQuantWithMinMaxVars",
    inputs=["inputs: float", "min: float", "max: float"],
    outputs=["outputs: float"],
    attrs=["num_bits: int = 8", "narrow_range: bool = false"],
    shape=unchanged,
)
define(
    "FakeQuantWithMinMaxVarsPerChannel",
    inputs=["inputs: float", "min: float", "max: float"],
    outputs=["outputs: float"],
    attrs=["num_bits: int = 8", "narrow_range: bool = false"],
    shape=unchanged,
)
define(
    "QuantizeAndDequantize",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=[
        "signed_input: bool = true",
        "num_bits: int = 8",
        "range_given: bool = false",
        "input_min: float = 0.0",
        "input_max: float = 0.0",
        "T: floattype",
    ],
    shape=unchanged,
)
define(
    "QuantizeAndDequantizeV2",
    inputs=["input: T", "input_min: T", "input_max: T"],
    outputs=["output: T"],
    attrs=[
        "signed_input: bool = true",
        "num_bits: int = 8",
        "range_given: bool = false",
        "T: floattype",
        "round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = \"HALF_TO_EVEN\"",
        "narrow_range: bool = false",
    ],
    shape=unchanged,
)
define(
    "QuantizeAndDequantizeV3",
    inputs=["input: T", "input_min: T", "input_max: T", "num_bits: int32"],
    outputs=["output: T"],
    attrs=[
        "signed_input: bool = true",
        "range_given: bool = true",
        "T: floattype",
        "narrow_range: bool = false",
    ],
    shape=unchanged,
)
define(
    "FakeQuantWithMinMaxArgsGradient",
    inputs=["gradients: float", "inputs: float"],
    outputs=["backprops: float"],
    attrs=["min: float = -6.0", "max: float = 6.0", "num_bits: int = 8", "narrow_range: bool = false"],
    shape=merged,
)


def fake_quant_grad(c: ShapeContext) -> Sequence[TensorShape]:
    return [merge(c, (0, 1)), SCALAR, SCALAR]


define(
    "FakeQuantWithMinMaxVarsGradient",
    inputs=["gradients: float", "inputs: float", "min: float", "max: float"],
    outputs=["backprops_wrt_input: float", "backprop_wrt_min: float", "backprop_wrt_max: float"],
    attrs=["num_bits: int = 8", "narrow_range: bool = false"],
    shape=fake_quant_grad,
)


def fake_quant_channel_grad(c: ShapeContext) -> Sequence[TensorShape]:
    """Gradients of the inputs and of the bounds, one bound for each channel."""
    ranked_at_least(c, 0, 1)
    ranked_at_least(c, 1, 1)
    shape = merge(c, (0, 1))
    channels = vector(merge_dims(shape[-1], ranked(c, 2, 1)[0], "The channels and the bounds"))
    return [shape, channels, channels]


define(
    "FakeQuantWithMinMaxVarsPerChannelGradient",
    inputs=["gradients: float", "inputs: float", "min: float", "max: float"],
    outputs=["backprops_wrt_input: float", "backprop_wrt_min: float", "backprop_wrt_max: float"],
    attrs=["num_bits: int = 8", "narrow_range: bool = false"],
    shape=fake_quant_channel_grad,
)


def with_range(c: ShapeContext) -> Sequence[TensorShape]:
    """A tensor of the same shape and its two bounds."""
    return [c.input(0), SCALAR, SCALAR]


define(
    "QuantizeV2",
    inputs=["input: float", "min_range: float", "max_range: float"],
    outputs=["output: T", "output_min: float", "output_max: float"],
    attrs=[
        "T: quantizedtype",
        "mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = \"MIN_COMBINED\"",
        "round_mode: {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'} = \"HALF_AWAY_FROM_ZERO\"",
    ],
    shape=with_range,
)
define(
    "QuantizeDownAndShrinkRange",
    inputs=["input: Tinput", "input_min: float", "input_max: float"],
    outputs=["output: out_type", "output_min: float", "output_max: float"],
    attrs=["Tinput: quantizedtype", "out_type: quantizedtype"],
    shape=with_range,
)
define(
    "Requantize",
    inputs=[
        "input: Tinput",
        "input_min: float",
        "input_max: float",
        "requested_output_min: float",
        "requested_output_max: float",
    ],
    outputs=["output: out_type", "output_min: float", "output_max: float"],
    attrs=["Tinput: quantizedtype", "out_type: quantizedtype"],
    shape=with_range,
)
define(
    "QuantizedInstanceNorm",
    inputs=["x: T", "x_min: float", "x_max: float"],
    outputs=["y: T", "y_min: float", "y_max: float"],
    attrs=[
        "T: quantizedtype",
        "output_range_given: bool = false",
        "given_y_min: float = 0.0",
        "given_y_max: float = 0.0",
        "variance_epsilon: float = 1e-05",
        "min_separation: float = 0.001",
    ],
    shape=with_range,
)


def quantized_reshape(c: ShapeContext) -> Sequence[TensorShape]:
    return [*reshape(c), SCALAR, SCALAR]


define(
    "QuantizedReshape",
    inputs=["tensor: T", "shape: Tshape", "input_min: float", "input_max: float"],
    outputs=["output: T", "output_min: float", "output_max: float"],
    attrs=["T: type", "Tshape: {int32, int64} = int32"],
    shape=quantized_reshape,
)


def quantized_binary(c: ShapeContext) -> Sequence[TensorShape]:
    return [broadcast_shapes(c.input(0), c.input(1)), SCALAR, SCALAR]


define(
    "QuantizedAdd",
    inputs=["x: T1", "y: T2", "min_x: float", "max_x: float", "min_y: float", "max_y: float"],
    outputs=["z: Toutput", "min_z: float", "max_z: float"],
    attrs=["T1: quantizedtype", "T2: quantizedtype", "Toutput: quantizedtype = qint32"],
    shape=quantized_binary,
)
define(
    "QuantizedMul",
    inputs=["x: T1", "y: T2", "min_x: float", "max_x: float", "min_y: float", "max_y: float"],
    outputs=["z: Toutput", "min_z: float", "max_z: float"],
    attrs=["T1: quantizedtype", "T2: quantizedtype", "Toutput: quantizedtype = qint32"],
    shape=quantized_binary,
)


def quantized_mat_mul(c: ShapeContext) -> Sequence[TensorShape]:
    return [*mat_mul(c), SCALAR, SCALAR]


define(
    "QuantizedMatMul",
    inputs=["a: T1", "b: T2", "min_a: float", "max_a: float", "min_b: float", "max_b: float"],
    outputs=["out: Toutput", "min_out: float", "max_out: float"],
    attrs=[
        "T1: quantizedtype",
        "T2: quantizedtype",
        "Toutput: quantizedtype = qint32",
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "Tactivation: quantizedtype = quint8",
    ],
    shape=quantized_mat_mul,
)
define(
    "RequantizationRange",
    inputs=["input: Tinput", "input_min: float", "input_max: float"],
    outputs=["output_min: float", "output_max: float"],
    attrs=["Tinput: quantizedtype"],
    shape=scalars,
)
define(
    "RequantizationRangePerChannel",
    inputs=["input: T", "input_min: float", "input_max: float"],
    outputs=["output_min: float", "output_max: float"],
    attrs=["T: quantizedtype = qint32", "clip_value_max: float"],
    shape=scalars,
)
define(
    "QuantizedConcat",
    inputs=["concat_dim: int32", "values: N * T", "input_mins: N * float", "input_maxes: N * float"],
    outputs=["output: T", "output_min: float", "output_max: float"],
    attrs=["N: int >= 2", "T: type"],
)
define(
    "QuantizedResizeBilinear",
    inputs=["images: T", "size: int32", "min: float", "max: float"],
    outputs=["resized_images: T", "out_min: float", "out_max: float"],
    attrs=["T: {quint8, qint32, float}", "align_corners: bool = false", "half_pixel_centers: bool = false"],
)
define(
    "RequantizePerChannel",
    inputs=[
        "input: T",
        "input_min: float",
        "input_max: float",
        "requested_output_min: float",
        "requested_output_max: float",
    ],
    outputs=["output: out_type", "output_min: float", "output_max: float"],
    attrs=["T: quantizedtype = qint32", "out_type: quantizedtype = quint8"],
)
