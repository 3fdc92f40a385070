"""Batch normalisation in its versions, and local response normalisation."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Droppable, NetworkLayer, Newer, Normalises, When
from flowengine.ops.nn.convolution import join_layout, split_layout
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, merge, merge_dims, of_rank, ranked, replace_dim, vector

#: Of batch normalisation by the statistics of the batch or by running ones.
BATCH_NORM: Final = (
    "epsilon: float = 0.0001; data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true"
)


@define(
    "BatchNormWithGlobalNormalization(t, m, v, beta, gamma: T) -> result: T",
    "T: numbertype; variance_epsilon: float; scale_after_normalization: bool",
    When("scale_after_normalization", True, Normalises("t", "m", "v", "beta", "gamma", "variance_epsilon")),
    When("scale_after_normalization", False, Normalises("t", "m", "v", "beta", "", "variance_epsilon")),
)
def global_norm(c: ShapeContext) -> Shapes:
    """x (N, H, W, C), mean, variance, beta, gamma (C) -> x"""
    batch, height, width, depth = dims_of(ranked(c, 0, 4), 4)
    for index in range(1, 5):
        depth = merge_dims(depth, ranked(c, index, 1)[0], "The channels of the input and of a parameter")
    return [TensorShape([batch, height, width, depth])]


@define(
    "BatchNormWithGlobalNormalizationGrad(t, m, v, gamma, backprop: T) -> dx, dm, dv, db, dg: T",
    "T: numbertype; variance_epsilon: float; scale_after_normalization: bool",
)
def global_norm_grad(c: ShapeContext) -> Shapes:
    shape = ranked(c, 0, 4).merge_with(ranked(c, 4, 4))
    depth = shape[3]
    for index in range(1, 4):
        depth = merge_dims(depth, ranked(c, index, 1)[0], "The channels of the input and of a parameter")
    return [replace_dim(shape, 3, depth), *[vector(depth)] * 4]


@define(
    "FusedBatchNorm(x, scale, offset, mean, variance: T) "
    "-> y, batch_mean, batch_variance, reserve_space_1, reserve_space_2: T",
    "T: {float}",
    BATCH_NORM,
    "exponential_avg_factor: float = 1.0",
    Newer(("exponential_avg_factor",)),
    When("is_training", False, Normalises("x", "mean", "variance", "offset", "scale", "epsilon")),
    NetworkLayer(),
)
@define(
    "FusedBatchNormV2(x: T, scale, offset, mean, variance: U) "
    "-> y: T, batch_mean, batch_variance, reserve_space_1, reserve_space_2: U",
    "T: {half, bfloat16, float}; U: {float}",
    BATCH_NORM,
    "exponential_avg_factor: float = 1.0",
    Newer(("exponential_avg_factor",)),
    When("is_training", False, Normalises("x", "mean", "variance", "offset", "scale", "epsilon")),
    NetworkLayer(),
)
@define(
    "FusedBatchNormV3(x: T, scale, offset, mean, variance: U) "
    "-> y: T, batch_mean, batch_variance, reserve_space_1, reserve_space_2, reserve_space_3: U",
    "T: {half, bfloat16, float}; U: {float}",
    BATCH_NORM,
    "exponential_avg_factor: float = 1.0",
    Newer(("exponential_avg_factor",)),
    When("is_training", False, Normalises("x", "mean", "variance", "offset", "scale", "epsilon")),
    NetworkLayer(),
)
def fused_norm(c: ShapeContext) -> Shapes:
    """x (N, H, W, C), scale, offset, mean, variance (C) -> x, four of (C), and a reserve of any size"""
    data_format: bytes = c.attrs["data_format"]
    batch, spatial, depth = split_layout(dims_of(ranked(c, 0, 4), 4), data_format)
    # In training mean and variance are empty.
    for index in range(1, 3 if c.attrs["is_training"] else 5):
        depth = merge_dims(depth, ranked(c, index, 1)[0], "The channels of the input and of a parameter")
    outputs = [join_layout(batch, spatial, depth, data_format), *[vector(depth)] * 4]
    return outputs + [UNKNOWN_SHAPE] * (c.num_outputs - 5)


@define(
    "FusedBatchNormGrad(y_backprop, x, scale, reserve_space_1, reserve_space_2: T) "
    "-> x_backprop, scale_backprop, offset_backprop, reserve_space_3, reserve_space_4: T",
    "T: {float}",
    BATCH_NORM,
)
@define(
    "FusedBatchNormGradV2(y_backprop, x: T, scale: float, reserve_space_1, reserve_space_2: U) "
    "-> x_backprop: T, scale_backprop, offset_backprop, reserve_space_3, reserve_space_4: U",
    "T: {half, bfloat16, float}; U: {float}",
    BATCH_NORM,
)
@define(
    "FusedBatchNormGradV3(y_backprop, x: T, scale: float, reserve_space_1, reserve_space_2, "
    "reserve_space_3: U) "
    "-> x_backprop: T, scale_backprop, offset_backprop, reserve_space_4, reserve_space_5: U",
    "T: {half, bfloat16, float}; U: {float}",
    BATCH_NORM,
)
def fused_norm_grad(c: ShapeContext) -> Shapes:
    """dy, x (N, H, W, C) -> dx, d scale, d offset (C), and two that mean nothing"""
    data_format: bytes = c.attrs["data_format"]
    shape = ranked(c, 0, 4).merge_with(ranked(c, 1, 4))
    batch, spatial, depth = split_layout(dims_of(shape, 4), data_format)
    depth = merge_dims(depth, ranked(c, 2, 1)[0], "The channels of the input and of the scale")
    return [
        join_layout(batch, spatial, depth, data_format),
        vector(depth),
        vector(depth),
        UNKNOWN_SHAPE,
        UNKNOWN_SHAPE,
    ]


define(
    "LRN(input: T) -> output: T",
    "depth_radius: int = 5; bias, alpha: float = 1.0; beta: float = 0.5; T: {half, bfloat16, float} = float",
    NetworkLayer(),
    shape=of_rank(4),
)


@define(
    "LRNGrad(input_grads, input_image, output_image: T) -> output: T",
    "depth_radius: int = 5; bias, alpha: float = 1.0; beta: float = 0.5; T: {half, bfloat16, float} = float",
    Droppable(),
)
def lrn_grad(c: ShapeContext) -> Shapes:
    for index in range(3):
        ranked(c, index, 4)
    return [merge(c, range(3))]
