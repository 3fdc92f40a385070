"""Activations, poolings and normalisations of quantised tensors."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.image.resizing import resize
from flowengine.ops.nn.pooling import pool_2d
from flowengine.ops.quantized.conversion import with_range
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, ranked, ranked_at_least

define(
    "QuantizedInstanceNorm(x: T, x_min, x_max: float) -> y: T, y_min, y_max: float",
    "T: quantizedtype; output_range_given: bool = false; given_y_min, given_y_max: float = 0.0",
    "variance_epsilon: float = 1e-05; min_separation: float = 0.001",
    NotDifferentiable(),
    shape=with_range,
)


@define(
    "QuantizedResizeBilinear(images: T, size: int32, min, max: float) "
    "-> resized_images: T, out_min, out_max: float",
    "T: {quint8, qint32, float}; align_corners, half_pixel_centers: bool = false",
    NotDifferentiable(),
)
def quantized_resize(c: ShapeContext) -> Shapes:
    check_scalars(c, 2, 3)
    return [*resize(c), SCALAR, SCALAR]


@define(
    "QuantizedRelu, QuantizedRelu6(features: Tinput, min_features, max_features: float) "
    "-> activations: out_type, min_activations, max_activations: float",
    "Tinput: quantizedtype; out_type: quantizedtype = quint8",
    NotDifferentiable(),
)
@define(
    "QuantizedReluX(features: Tinput, max_value, min_features, max_features: float) "
    "-> activations: out_type, min_activations, max_activations: float",
    "Tinput: quantizedtype; out_type: quantizedtype = quint8",
    NotDifferentiable(),
)
def fixed_range(c: ShapeContext) -> Shapes:
    """A tensor of the same shape and its two bounds."""
    check_scalars(c, *range(1, c.num_inputs))
    return [c.input(0), SCALAR, SCALAR]


@define(
    "QuantizedBiasAdd(input: T1, bias: T2, min_input, max_input, min_bias, max_bias: float) "
    "-> output: out_type, min_out, max_out: float",
    "T1, T2, out_type: quantizedtype",
    NotDifferentiable(),
)
def quantized_bias_add(c: ShapeContext) -> Shapes:
    check_scalars(c, 2, 3, 4, 5)
    ranked(c, 1, 1)
    return [ranked_at_least(c, 0, 1), SCALAR, SCALAR]


@define(
    "QuantizedMaxPool, "
    "QuantizedAvgPool(input: T, min_input, max_input: float) -> output: T, min_output, max_output: float",
    "T: quantizedtype; ksize, strides: list(int); padding: {'SAME', 'VALID'}",
    NotDifferentiable(),
)
def quantized_pool(c: ShapeContext) -> Shapes:
    check_scalars(c, 1, 2)
    return [*pool_2d(c), SCALAR, SCALAR]


@define(
    "QuantizedBatchNormWithGlobalNormalization(t: Tinput, t_min, t_max: float, m: Tinput, m_min, "
    "m_max: float, v: Tinput, v_min, v_max: float, beta: Tinput, beta_min, beta_max: float, "
    "gamma: Tinput, gamma_min, gamma_max: float) -> result: out_type, result_min, result_max: float",
    "Tinput, out_type: quantizedtype; variance_epsilon: float; scale_after_normalization: bool",
    NotDifferentiable(),
)
def quantized_batch_norm(c: ShapeContext) -> Shapes:
    return [ranked(c, 0, 4), SCALAR, SCALAR]
