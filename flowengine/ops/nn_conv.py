"""Convolutions and their gradients."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "Conv2D",
    inputs=["input: T", "filter: T"],
    outputs=["output: T"],
    attrs=[
        "T: floattype",
        "strides: list(int)",
        "use_cudnn_on_gpu: bool = true",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "Conv2DBackpropFilter",
    inputs=["input: T", "filter_sizes: int32", "out_backprop: T"],
    outputs=["output: T"],
    attrs=[
        "T: floattype",
        "strides: list(int)",
        "use_cudnn_on_gpu: bool = true",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "Conv2DBackpropInput",
    inputs=["input_sizes: int32", "filter: T", "out_backprop: T"],
    outputs=["output: T"],
    attrs=[
        "T: floattype",
        "strides: list(int)",
        "use_cudnn_on_gpu: bool = true",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "Conv3D",
    inputs=["input: T", "filter: T"],
    outputs=["output: T"],
    attrs=[
        "T: floattype",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = \"NDHWC\"",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
    ],
)
define(
    "Conv3DBackpropFilter",
    inputs=["input: T", "filter: T", "out_backprop: T"],
    outputs=["output: T"],
    attrs=[
        "T: {half, float, double}",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
    ],
)
define(
    "Conv3DBackpropFilterV2",
    inputs=["input: T", "filter_sizes: int32", "out_backprop: T"],
    outputs=["output: T"],
    attrs=[
        "T: floattype",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = \"NDHWC\"",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
    ],
)
define(
    "Conv3DBackpropInput",
    inputs=["input: T", "filter: T", "out_backprop: T"],
    outputs=["output: T"],
    attrs=[
        "T: {half, float, double}",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
    ],
)
define(
    "Conv3DBackpropInputV2",
    inputs=["input_sizes: Tshape", "filter: T", "out_backprop: T"],
    outputs=["output: T"],
    attrs=[
        "T: floattype",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = \"NDHWC\"",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
        "Tshape: {int32, int64} = int32",
    ],
)
define(
    "DepthwiseConv2dNative",
    inputs=["input: T", "filter: T"],
    outputs=["output: T"],
    attrs=[
        "T: floattype",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "DepthwiseConv2dNativeBackpropFilter",
    inputs=["input: T", "filter_sizes: int32", "out_backprop: T"],
    outputs=["output: T"],
    attrs=[
        "T: floattype",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "DepthwiseConv2dNativeBackpropInput",
    inputs=["input_sizes: int32", "filter: T", "out_backprop: T"],
    outputs=["output: T"],
    attrs=[
        "T: floattype",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "Dilation2D",
    inputs=["input: T", "filter: T"],
    outputs=["output: T"],
    attrs=[
        "T: realnumbertype",
        "strides: list(int) >= 4",
        "rates: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
    ],
)
define(
    "Dilation2DBackpropFilter",
    inputs=["input: T", "filter: T", "out_backprop: T"],
    outputs=["filter_backprop: T"],
    attrs=[
        "T: realnumbertype",
        "strides: list(int) >= 4",
        "rates: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
    ],
)
define(
    "Dilation2DBackpropInput",
    inputs=["input: T", "filter: T", "out_backprop: T"],
    outputs=["in_backprop: T"],
    attrs=[
        "T: realnumbertype",
        "strides: list(int) >= 4",
        "rates: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
    ],
)
define(
    "FusedPadConv2D",
    inputs=["input: T", "paddings: int32", "filter: T"],
    outputs=["output: T"],
    attrs=[
        "T: {half, float, double}",
        "mode: {'REFLECT', 'SYMMETRIC'}",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
    ],
)
define(
    "FusedResizeAndPadConv2D",
    inputs=["input: T", "size: int32", "paddings: int32", "filter: T"],
    outputs=["output: T"],
    attrs=[
        "T: {half, float, double}",
        "resize_align_corners: bool = false",
        "mode: {'REFLECT', 'SYMMETRIC'}",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
    ],
)
