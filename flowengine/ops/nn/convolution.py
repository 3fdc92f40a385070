"""Convolutions, depthwise ones too, and layouts of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import Dimension, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, ShapeFunction, Shapes
from flowengine.ir.traits import Convolves, Droppable, LaterAttrs, NetworkLayer, NotDifferentiable, Product
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    add_dims,
    dims_of,
    merge_dims,
    multiply_dims,
    of_rank,
    ranked,
    unchanged,
    windowed,
)

# Layouts of images (NHWC, NCHW), and axes and vectors carried from one to another.

define(
    "DataFormatDimMap, DataFormatVecPermute(x: T) -> y: T",
    "T: indextype = int32; src_format: string = 'NHWC'; dst_format: string = 'NCHW'",
    NotDifferentiable(),
    shape=unchanged,
)


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


def sizes_of_rank(c: ShapeContext, index: int, rank: int) -> TensorShape:
    """The shape that a vector input spells, of a rank that is known anyway."""
    shape = c.input_as_shape(index)
    return shape if shape.rank == rank else unknown_of_rank(rank)


def sizes_from(index: int, rank: int) -> ShapeFunction:
    """The shape function of an op whose one output has the sizes that a vector input spells."""

    def shape(c: ShapeContext) -> Shapes:
        return [sizes_of_rank(c, index, rank)]

    return shape


# Convolutions, depthwise ones too, and their gradients.

#: How windows lie in images.
PLANES: Final = (
    "strides: list(int); use_cudnn_on_gpu: bool = true; padding: {'SAME', 'VALID', 'EXPLICIT'}; "
    "explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW'} = 'NHWC'; "
    "dilations: list(int) = [1, 1, 1, 1]"
)
#: What TensorFlow 2 writes for windows that are padded as SAME and VALID say, the only ones of some ops here.
NO_EXPLICIT_PADDINGS: Final = LaterAttrs((("explicit_paddings", ((),)),))
#: The same where channels stay apart.
DEPTHWISE: Final = (
    "strides: list(int); padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; "
    "dilations: list(int) = [1, 1, 1, 1]"
)
#: How windows lie in volumes.
VOLUMES: Final = (
    "strides: list(int) >= 5; padding: {'SAME', 'VALID'}; data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; "
    "dilations: list(int) = [1, 1, 1, 1, 1]"
)


@define(
    "Conv2D(input, filter: T) -> output: T",
    "T: {half, bfloat16, float, double, int32}",
    PLANES,
    Product("input", "filter"),
    Convolves("input", "filter"),
    NetworkLayer(is_large=True),
)
def conv_2d(c: ShapeContext) -> Shapes:
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
    "Conv2DBackpropInput(input_sizes: int32, filter, out_backprop: T) -> output: T",
    "T: {half, bfloat16, float, double, int32}",
    PLANES,
    Product("filter", "out_backprop"),
    Droppable(),
    NetworkLayer(is_large=True),
    shape=sizes_from(0, 4),
)
define(
    "DepthwiseConv2dNativeBackpropInput(input_sizes: int32, filter, out_backprop: T) -> output: T",
    "T: floattype",
    DEPTHWISE,
    NO_EXPLICIT_PADDINGS,
    Droppable(),
    shape=sizes_from(0, 4),
)


define(
    "Conv2DBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) -> output: T",
    "T: floattype",
    PLANES,
    Product("input", "out_backprop"),
    Droppable(),
    shape=sizes_from(1, 4),
)
define(
    "DepthwiseConv2dNativeBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) -> output: T",
    "T: floattype",
    DEPTHWISE,
    NO_EXPLICIT_PADDINGS,
    Droppable(),
    shape=sizes_from(1, 4),
)


@define(
    "DepthwiseConv2dNative(input, filter: T) -> output: T",
    "T: floattype",
    DEPTHWISE,
    NO_EXPLICIT_PADDINGS,
    Convolves("input", "filter", channel_axes=2),
    NetworkLayer(is_large=True),
)
def depthwise_conv(c: ShapeContext) -> Shapes:
    """(N, H, W, C), (h, w, C, M) -> (N, H', W', C * M)"""
    data_format: bytes = c.attrs["data_format"]
    dims, window = dims_of(ranked(c, 0, 4), 4), dims_of(ranked(c, 1, 4), 4)
    batch, spatial, depth = split_layout(dims, data_format)
    depth = merge_dims(depth, window[2], "The channels of input and filter")
    sizes = windows(c, spatial, window[:2], data_format)
    return [join_layout(batch, sizes, multiply_dims(depth, window[3]), data_format)]


@define(
    "Conv3D(input, filter: T) -> output: T",
    "T: floattype",
    VOLUMES,
    Product("input", "filter"),
    NetworkLayer(),
)
def conv_3d(c: ShapeContext) -> Shapes:
    """(N, D, H, W, C), (d, h, w, C, F) -> (N, D', H', W', F)"""
    data_format: bytes = c.attrs["data_format"]
    dims, window = dims_of(ranked(c, 0, 5), 5), dims_of(ranked(c, 1, 5), 5)
    batch, spatial, depth = split_layout(dims, data_format)
    merge_dims(depth, window[3], "The channels of input and filter")
    return [join_layout(batch, windows(c, spatial, window[:3], data_format), window[4], data_format)]


define(
    "Conv3DBackpropInput(input, filter, out_backprop: T) -> output: T",
    "T: {half, float, double}; strides: list(int) >= 5; padding: {'SAME', 'VALID'}",
    "dilations: list(int) = [1, 1, 1, 1, 1]",
    Product("filter", "out_backprop"),
    Droppable(),
    shape=of_rank(5),
)


@define(
    "Conv3DBackpropFilter(input, filter, out_backprop: T) -> output: T",
    "T: {half, float, double}; strides: list(int) >= 5; padding: {'SAME', 'VALID'}",
    "dilations: list(int) = [1, 1, 1, 1, 1]",
    Product("input", "out_backprop"),
    Droppable(),
)
def backprop_filter_3d_v1(c: ShapeContext) -> Shapes:
    return [ranked(c, 1, 5)]


define(
    "Conv3DBackpropInputV2(input_sizes: Tshape, filter, out_backprop: T) -> output: T",
    "T: floattype",
    VOLUMES,
    "Tshape: indextype = int32",
    Product("filter", "out_backprop"),
    Droppable(),
    shape=sizes_from(0, 5),
)


define(
    "Conv3DBackpropFilterV2(input: T, filter_sizes: int32, out_backprop: T) -> output: T",
    "T: floattype",
    VOLUMES,
    Product("input", "out_backprop"),
    Droppable(),
    shape=sizes_from(1, 5),
)
