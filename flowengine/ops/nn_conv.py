"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import Dimension, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    add_dims,
    dims_of,
    like_input,
    merge_dims,
    multiply_dims,
    of_rank,
    pairs_value,
    ranked,
    windowed,
)


def conv_2d(c: ShapeContext) -> Sequence[TensorShape]:
    """(N, H, W, C), (h, w, C, F) -> (N, H', W', F)"""
    data_format: bytes = c.attrs["data_format"]
    vectorised = data_format == b"NCHW_VECT_C"
    rank = 5 if vectorised else 4
    dims, window = dims_of(ranked(c, 0, rank), rank), dims_of(ranked(c, 1, rank), rank)
    if vectorised:
        return [unknown_of_rank(5)]
    batch, spatial, depth = split_layout(dims, data_format)
    if depth is not None and window[2] is not None and (window[2] == 0 or depth % window[2]):
        raise InvalidArgumentError(
            f"Depth of input ({depth}) is not a multiple of input depth of filter ({window[2]})"
        )
    sizes = windows(c, spatial, window[:2], data_format)
    return [join_layout(batch, sizes, window[3], data_format)]


def split_layout(
    dims: Sequence[Dimension], data_format: bytes
) -> tuple[Dimension, Sequence[Dimension], Dimension]:
    """Batch, spatial dimensions and channels, by the layout."""
    if data_format.startswith(b"NC"):
        return dims[0], dims[2:], dims[1]
    return dims[0], dims[1:-1], dims[-1]


def join_layout(
    batch: Dimension, spatial: Sequence[Dimension], depth: Dimension, data_format: bytes
) -> TensorShape:
    if data_format.startswith(b"NC"):
        return TensorShape([batch, depth, *spatial])
    return TensorShape([batch, *spatial, depth])


def windows(
    c: ShapeContext, spatial: Sequence[Dimension], window: Sequence[Dimension], data_format: bytes
) -> list[Dimension]:
    """The spatial dimensions of an output, from strides, dilations and padding of the node."""
    first = 2 if data_format.startswith(b"NC") else 1
    count = len(spatial)
    strides = c.attrs["strides"]
    dilations = c.attrs.get("dilations") or (1,) * (count + 2)
    padding: bytes = c.attrs["padding"]
    explicit = c.attrs.get("explicit_paddings") or ()
    if len(strides) != count + 2 or len(dilations) != count + 2:
        raise InvalidArgumentError(
            f"strides and dilations must have {count + 2} elements: {list(strides)}, {list(dilations)}"
        )
    result: list[Dimension] = []
    for i, size in enumerate(spatial):
        axis = first + i
        how = padding
        if padding == b"EXPLICIT":
            if len(explicit) != 2 * (count + 2):
                raise InvalidArgumentError(f"explicit_paddings must have {2 * (count + 2)} elements")
            size, how = add_dims(size, explicit[2 * axis], explicit[2 * axis + 1]), b"VALID"
        result.append(windowed(size, window[i], strides[axis], how, dilations[axis]))
    return result


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
    shape=conv_2d,
)


def backprop_input_2d(c: ShapeContext) -> Sequence[TensorShape]:
    return [sizes_of_rank(c, 0, 4)]


def sizes_of_rank(c: ShapeContext, index: int, rank: int) -> TensorShape:
    """The shape that a vector input spells, of a rank that is known anyway."""
    shape = c.input_as_shape(index)
    return shape if shape.rank == rank else unknown_of_rank(rank)


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
    shape=backprop_input_2d,
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
    shape=backprop_input_2d,
)


def backprop_filter_2d(c: ShapeContext) -> Sequence[TensorShape]:
    return [sizes_of_rank(c, 1, 4)]


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
    shape=backprop_filter_2d,
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
    shape=backprop_filter_2d,
)


def depthwise_conv(c: ShapeContext) -> Sequence[TensorShape]:
    """(N, H, W, C), (h, w, C, M) -> (N, H', W', C * M)"""
    data_format: bytes = c.attrs["data_format"]
    dims, window = dims_of(ranked(c, 0, 4), 4), dims_of(ranked(c, 1, 4), 4)
    batch, spatial, depth = split_layout(dims, data_format)
    depth = merge_dims(depth, window[2], "The channels of input and filter")
    sizes = windows(c, spatial, window[:2], data_format)
    return [join_layout(batch, sizes, multiply_dims(depth, window[3]), data_format)]


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
    shape=depthwise_conv,
)


def conv_3d(c: ShapeContext) -> Sequence[TensorShape]:
    """(N, D, H, W, C), (d, h, w, C, F) -> (N, D', H', W', F)"""
    data_format: bytes = c.attrs["data_format"]
    dims, window = dims_of(ranked(c, 0, 5), 5), dims_of(ranked(c, 1, 5), 5)
    batch, spatial, depth = split_layout(dims, data_format)
    merge_dims(depth, window[3], "The channels of input and filter")
    return [join_layout(batch, windows(c, spatial, window[:3], data_format), window[4], data_format)]


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
    shape=conv_3d,
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
    shape=of_rank(5),
)


def backprop_filter_3d_v1(c: ShapeContext) -> Sequence[TensorShape]:
    return [ranked(c, 1, 5)]


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
    shape=backprop_filter_3d_v1,
)


def backprop_input_3d(c: ShapeContext) -> Sequence[TensorShape]:
    return [sizes_of_rank(c, 0, 5)]


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
    shape=backprop_input_3d,
)


def backprop_filter_3d(c: ShapeContext) -> Sequence[TensorShape]:
    return [sizes_of_rank(c, 1, 5)]


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
    shape=backprop_filter_3d,
)


def dilation(c: ShapeContext) -> Sequence[TensorShape]:
    """(N, H, W, C), (h, w, C) -> (N, H', W', C)"""
    n, h, w, depth = dims_of(ranked(c, 0, 4), 4)
    rows, columns, channels = dims_of(ranked(c, 1, 3), 3)
    strides, rates, padding = c.attrs["strides"], c.attrs["rates"], c.attrs["padding"]
    return [
        TensorShape(
            [
                n,
                windowed(h, rows, strides[1], padding, rates[1]),
                windowed(w, columns, strides[2], padding, rates[2]),
                merge_dims(depth, channels, "The channels of input and filter"),
            ]
        )
    ]


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
    shape=dilation,
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
    shape=like_input(0),
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
    shape=like_input(1),
)


def fused_pad_conv(c: ShapeContext) -> Sequence[TensorShape]:
    return [_fused_conv(c, ranked(c, 0, 4), 1, 2)]


def _fused_conv(c: ShapeContext, image: TensorShape, paddings_index: int, filter_index: int) -> TensorShape:
    """Convolution of an image that is padded on the way."""
    n, h, w, depth = dims_of(image, 4)
    window = dims_of(ranked(c, filter_index, 4), 4)
    merge_dims(depth, window[2], "The channels of input and filter")
    paddings = pairs_value(c, paddings_index, 4)
    if paddings is None:
        return TensorShape([None, None, None, window[3]])
    amounts = [before + after for before, after in paddings]
    spatial = [add_dims(h, amounts[1]), add_dims(w, amounts[2])]
    return join_layout(add_dims(n, amounts[0]), windows(c, spatial, window[:2], b"NHWC"), window[3], b"NHWC")


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
    shape=fused_pad_conv,
)


def fused_resize_conv(c: ShapeContext) -> Sequence[TensorShape]:
    n, _, _, depth = dims_of(ranked(c, 0, 4), 4)
    height, width = dims_of(sizes_of_rank(c, 1, 2), 2)
    return [_fused_conv(c, TensorShape([n, height, width, depth]), 2, 3)]


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
    shape=fused_resize_conv,
)
