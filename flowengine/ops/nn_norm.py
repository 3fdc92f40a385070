"""Normalisation layers and their gradients."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "BatchNormWithGlobalNormalization",
    inputs=["t: T", "m: T", "v: T", "beta: T", "gamma: T"],
    outputs=["result: T"],
    attrs=["T: numbertype", "variance_epsilon: float", "scale_after_normalization: bool"],
)
define(
    "BatchNormWithGlobalNormalizationGrad",
    inputs=["t: T", "m: T", "v: T", "gamma: T", "backprop: T"],
    outputs=["dx: T", "dm: T", "dv: T", "db: T", "dg: T"],
    attrs=["T: numbertype", "variance_epsilon: float", "scale_after_normalization: bool"],
)
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
)
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
)
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
)
