"""Convolutions of any rank or with padding of their own, and grayscale dilation."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Product
from flowengine.ops.nn.convolution import join_layout, sizes_of_rank, windows
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    add_dims,
    dims_of,
    like_input,
    merge_dims,
    pairs_value,
    ranked,
    windowed,
)

# `Conv`: convolution of images or volumes, whichever comes, with any number of batch dimensions.


@define(
    "Conv(input, filter: T) -> output: T",
    "T: {half, bfloat16, float, double, int32}; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}",
    "explicit_paddings: list(int) = []; data_format: {'CHANNELS_FIRST', 'CHANNELS_LAST'} = 'CHANNELS_LAST'",
    "dilations: list(int) = []; batch_dims, groups: int = 1",
    Product("input", "filter"),
)
def conv(c: ShapeContext) -> Shapes:
    """(batch..., H, W, C), (h, w, C, F) -> (batch..., H', W', F), or with three spatial dimensions"""
    x, window, batch_dims = c.input(0).dims, c.input(1).dims, c.attrs["batch_dims"]
    if batch_dims < 0:
        raise InvalidArgumentError(f"batch_dims must be at least 0, but is {batch_dims}")
    if x is None or window is None:
        return [UNKNOWN_SHAPE]
    count = len(window) - 2
    if count not in (2, 3) or len(x) != batch_dims + count + 1:
        raise InvalidArgumentError(
            "The input must have 2 or 3 spatial dimensions, and the filter two more: ranks are "
            f"{len(x)} with {batch_dims} of the batch, and {len(window)}"
        )
    is_first = c.attrs["data_format"] == b"CHANNELS_FIRST"
    batch, rest = x[:batch_dims], x[batch_dims:]
    spatial, depth = (rest[1:], rest[0]) if is_first else (rest[:-1], rest[-1])
    if c.attrs["groups"] == 1 and None not in (depth, window[-2]) and depth != window[-2]:
        raise InvalidArgumentError(f"Input depth must be equal to filter depth: {depth} vs {window[-2]}")
    sizes: list[Dimension] = windows(c, spatial, window[:count], b"NCHW" if is_first else b"NHWC")
    return [TensorShape([*batch, window[-1], *sizes] if is_first else [*batch, *sizes, window[-1]])]


# Convolutions of images that are resized, and made larger by their mirror image, on the way.


@define(
    "FusedPadConv2D(input: T, paddings: int32, filter: T) -> output: T",
    "T: floattype; mode: {'REFLECT', 'SYMMETRIC'}; strides: list(int)",
    "padding: {'SAME', 'VALID'}",
)
def fused_pad_conv(c: ShapeContext) -> Shapes:
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


@define(
    "FusedResizeAndPadConv2D(input: T, size, paddings: int32, filter: T) -> output: T",
    "T: {half, float, double}; resize_align_corners: bool = false; mode: {'REFLECT', 'SYMMETRIC'}",
    "strides: list(int); padding: {'SAME', 'VALID'}",
)
def fused_resize_conv(c: ShapeContext) -> Shapes:
    n, _, _, depth = dims_of(ranked(c, 0, 4), 4)
    height, width = dims_of(sizes_of_rank(c, 1, 2), 2)
    return [_fused_conv(c, TensorShape([n, height, width, depth]), 2, 3)]


# Grayscale dilation and its gradients.


@define(
    "Dilation2D(input, filter: T) -> output: T",
    "T: realnumbertype; strides, rates: list(int) >= 4; padding: {'SAME', 'VALID'}",
)
def dilation(c: ShapeContext) -> Shapes:
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
    "Dilation2DBackpropInput(input, filter, out_backprop: T) -> in_backprop: T",
    "T: realnumbertype; strides, rates: list(int) >= 4; padding: {'SAME', 'VALID'}",
    shape=like_input(0),
)
define(
    "Dilation2DBackpropFilter(input, filter, out_backprop: T) -> filter_backprop: T",
    "T: realnumbertype; strides, rates: list(int) >= 4; padding: {'SAME', 'VALID'}",
    shape=like_input(1),
)
