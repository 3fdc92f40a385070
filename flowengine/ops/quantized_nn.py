"""Quantised neural-network layers."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.nn_pool import pool_2d
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked, ranked_at_least


def fixed_range(c: ShapeContext) -> Sequence[TensorShape]:
    """A tensor of the same shape and its two bounds."""
    return [c.input(0), SCALAR, SCALAR]


define(
    "QuantizedRelu",
    inputs=["features: Tinput", "min_features: float", "max_features: float"],
    outputs=["activations: out_type", "min_activations: float", "max_activations: float"],
    attrs=["Tinput: quantizedtype", "out_type: quantizedtype = quint8"],
    shape=fixed_range,
)
define(
    "QuantizedRelu6",
    inputs=["features: Tinput", "min_features: float", "max_features: float"],
    outputs=["activations: out_type", "min_activations: float", "max_activations: float"],
    attrs=["Tinput: quantizedtype", "out_type: quantizedtype = quint8"],
    shape=fixed_range,
)
define(
    "QuantizedReluX",
    inputs=["features: Tinput", "max_value: float", "min_features: float", "max_features: float"],
    outputs=["activations: out_type", "min_activations: float", "max_activations: float"],
    attrs=["Tinput: quantizedtype", "out_type: quantizedtype = quint8"],
    shape=fixed_range,
)


def quantized_bias_add(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 1, 1)
    return [ranked_at_least(c, 0, 1), SCALAR, SCALAR]


define(
    "QuantizedBiasAdd",
    inputs=[
        "input: T1",
        "bias: T2",
        "min_input: float",
        "max_input: float",
        "min_bias: float",
        "max_bias: float",
    ],
    outputs=["output: out_type", "min_out: float", "max_out: float"],
    attrs=["T1: quantizedtype", "T2: quantizedtype", "out_type: quantizedtype"],
    shape=quantized_bias_add,
)


def quantized_pool(c: ShapeContext) -> Sequence[TensorShape]:
    return [*pool_2d(c), SCALAR, SCALAR]


define(
    "QuantizedMaxPool",
    inputs=["input: T", "min_input: float", "max_input: float"],
    outputs=["output: T", "min_output: float", "max_output: float"],
    attrs=["T: quantizedtype", "ksize: list(int)", "strides: list(int)", "padding: {'SAME', 'VALID'}"],
    shape=quantized_pool,
)
define(
    "QuantizedAvgPool",
    inputs=["input: T", "min_input: float", "max_input: float"],
    outputs=["output: T", "min_output: float", "max_output: float"],
    attrs=["T: quantizedtype", "ksize: list(int)", "strides: list(int)", "padding: {'SAME', 'VALID'}"],
    shape=quantized_pool,
)
define(
    "QuantizedBatchNormWithGlobalNormalization",
    inputs=[
        "t: Tinput",
        "t_min: float",
        "t_max: float",
        "m: Tinput",
        "m_min: float",
        "m_max: float",
        "v: Tinput",
        "v_min: float",
        "v_max: float",
        "beta: Tinput",
        "beta_min: float",
        "beta_max: float",
        "gamma: Tinput",
        "gamma_min: float",
        "gamma_max: float",
    ],
    outputs=["result: out_type", "result_min: float", "result_max: float"],
    attrs=[
        "Tinput: quantizedtype",
        "out_type: quantizedtype",
        "variance_epsilon: float",
        "scale_after_normalization: bool",
    ],
)
define(
    "QuantizedMatMulWithBias",
    inputs=["a: T1", "b: T2", "bias: Tbias", "min_a: float", "max_a: float", "min_b: float", "max_b: float"],
    outputs=["out: Toutput", "min_out: float", "max_out: float"],
    attrs=[
        "T1: quantizedtype",
        "T2: quantizedtype",
        "Tbias: {float, qint32}",
        "Toutput: quantizedtype = qint32",
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "input_quant_mode: {'MIN_FIRST', 'SCALED'} = \"MIN_FIRST\"",
    ],
)
define(
    "QuantizedMatMulWithBiasAndRelu",
    inputs=["a: T1", "b: T2", "bias: float", "min_a: float", "max_a: float", "min_b: float", "max_b: float"],
    outputs=["out: Toutput", "min_out: float", "max_out: float"],
    attrs=[
        "T1: quantizedtype",
        "T2: quantizedtype",
        "Toutput: quantizedtype = qint32",
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "input_quant_mode: {'MIN_FIRST', 'SCALED'} = \"MIN_FIRST\"",
    ],
)
define(
    "QuantizedMatMulWithBiasAndReluAndRequantize",
    inputs=[
        "a: T1",
        "b: T2",
        "bias: Tbias",
        "min_a: float",
        "max_a: float",
        "min_b: float",
        "max_b: float",
        "min_freezed_output: float",
        "max_freezed_output: float",
    ],
    outputs=["out: Toutput", "min_out: float", "max_out: float"],
    attrs=[
        "T1: quantizedtype",
        "T2: quantizedtype",
        "Tbias: {float, qint32}",
        "Toutput: quantizedtype = quint8",
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "input_quant_mode: {'MIN_FIRST', 'SCALED'} = \"MIN_FIRST\"",
    ],
)
