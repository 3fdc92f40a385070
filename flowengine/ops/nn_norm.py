"""Normalisation layers and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.nn_conv import join_layout, split_layout
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, merge, merge_dims, of_rank, ranked, replace_dim, vector


def global_norm(c: ShapeContext) -> Sequence[TensorShape]:
    """x (N, H, W, C), mean, variance, beta, gamma (C) -> x"""
    batch, height, width, depth = dims_of(ranked(c, 0, 4), 4)
    for index in range(1, 5):
        depth = merge_dims(depth, ranked(c, index, 1)[0], "The channels of the input and of a parameter")
    return [TensorShape([batch, height, width, depth])]


define(
    "BatchNormWithGlobalNormalization",
    inputs=["t: T", "m: T", "v: T", "beta: T", "gamma: T"],
    outputs=["result: T"],
    attrs=["T: numbertype", "variance_epsilon: float", "scale_after_normalization: bool"],
    shape=global_norm,
)


def global_norm_grad(c: ShapeContext) -> Sequence[TensorShape]:
    shape = ranked(c, 0, 4).merge_with(ranked(c, 4, 4))
    depth = shape[3]
    for index in range(1, 4):
        depth = merge_dims(depth, ranked(c, index, 1)[0], "The channels of the input and of a parameter")
    return [replace_dim(shape, 3, depth), *[vector(depth)] * 4]


define(
    "BatchNormWithGlobalNormalizationGrad",
    inputs=["t: T", "m: T", "v: T", "gamma: T", "backprop: T"],
    outputs=["dx: T", "dm: T", "dv: T", "db: T", "dg: T"],
    attrs=["T: numbertype", "variance_epsilon: float", "scale_after_normalization: bool"],
    shape=global_norm_grad,
)


def fused_norm(c: ShapeContext) -> Sequence[TensorShape]:
    """x (N, H, W, C), scale, offset, mean, variance (C) -> x, four of (C), and a reserve of any size"""
    data_format: bytes = c.attrs["data_format"]
    batch, spatial, depth = split_layout(dims_of(ranked(c, 0, 4), 4), data_format)
    # In training mean and variance are empty.
    for index in range(1, 3 if c.attrs["is_training"] else 5):
        depth = merge_dims(depth, ranked(c, index, 1)[0], "The channels of the input and of a parameter")
    outputs = [join_layout(batch, spatial, depth, data_format), *[vector(depth)] * 4]
    return outputs + [UNKNOWN_SHAPE] * (c.num_outputs - 5)


define(
    "FusedBatchNorm",
    inputs=["x: T", "scale: T", "offset: T", "mean: T", "variance: T"],
    outputs=["y: T", "batch_mean: T", "batch_variance: T", "reserve_space_1: T", "reserve_space_2: T"],
    attrs=[
        "T: {float}",
        "epsilon: float = 0.0001",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "is_training: bool = true",
    ],
    shape=fused_norm,
)
define(
    "FusedBatchNormV2",
    inputs=["x: T", "scale: U", "offset: U", "mean: U", "variance: U"],
    outputs=["y: T", "batch_mean: U", "batch_variance: U", "reserve_space_1: U", "reserve_space_2: U"],
    attrs=[
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 0.0001",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "is_training: bool = true",
    ],
    shape=fused_norm,
)
define(
    "FusedBatchNormV3",
    inputs=["x: T", "scale: U", "offset: U", "mean: U", "variance: U"],
    outputs=[
        "y: T",
        "batch_mean: U",
        "batch_variance: U",
        "reserve_space_1: U",
        "reserve_space_2: U",
        "reserve_space_3: U",
    ],
    attrs=[
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 0.0001",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "is_training: bool = true",
    ],
    shape=fused_norm,
)


def fused_norm_grad(c: ShapeContext) -> Sequence[TensorShape]:
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
    "FusedBatchNormGrad",
    inputs=["y_backprop: T", "x: T", "scale: T", "reserve_space_1: T", "reserve_space_2: T"],
    outputs=[
        "x_backprop: T",
        "scale_backprop: T",
        "offset_backprop: T",
        "reserve_space_3: T",
        "reserve_space_4: T",
    ],
    attrs=[
        "T: {float}",
        "epsilon: float = 0.0001",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "is_training: bool = true",
    ],
    shape=fused_norm_grad,
)
define(
    "FusedBatchNormGradV2",
    inputs=["y_backprop: T", "x: T", "scale: float", "reserve_space_1: U", "reserve_space_2: U"],
    outputs=[
        "x_backprop: T",
        "scale_backprop: U",
        "offset_backprop: U",
        "reserve_space_3: U",
        "reserve_space_4: U",
    ],
    attrs=[
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 0.0001",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "is_training: bool = true",
    ],
    shape=fused_norm_grad,
)
define(
    "FusedBatchNormGradV3",
    inputs=[
        "y_backprop: T",
        "x: T",
        "scale: float",
        "reserve_space_1: U",
        "reserve_space_2: U",
        "reserve_space_3: U",
    ],
    outputs=[
        "x_backprop: T",
        "scale_backprop: U",
        "offset_backprop: U",
        "reserve_space_4: U",
        "reserve_space_5: U",
    ],
    attrs=[
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 0.0001",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "is_training: bool = true",
    ],
    shape=fused_norm_grad,
)
define(
    "LRN",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=[
        "depth_radius: int = 5",
        "bias: float = 1.0",
        "alpha: float = 1.0",
        "beta: float = 0.5",
        "T: {half, bfloat16, float} = float",
    ],
    shape=of_rank(4),
)


def lrn_grad(c: ShapeContext) -> Sequence[TensorShape]:
    for index in range(3):
        ranked(c, index, 4)
    return [merge(c, range(3))]


define(
    "LRNGrad",
    inputs=["input_grads: T", "input_image: T", "output_image: T"],
    outputs=["output: T"],
    attrs=[
        "depth_radius: int = 5",
        "bias: float = 1.0",
        "alpha: float = 1.0",
        "beta: float = 0.5",
        "T: {half, bfloat16, float} = float",
    ],
    shape=lrn_grad,
)
