"""Convolutions of images that are resized, and made larger by their mirror image, on the way."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.nn.convolution import windows
from flowengine.ops.nn.data_format import join_layout, sizes_of_rank
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import add_dims, dims_of, merge_dims, pairs_value, ranked


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
