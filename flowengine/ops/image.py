"""Images: resizing and colours."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    at_least,
    dims_of,
    like_input,
    merge_dims,
    ranked,
    ranked_at_least,
    replace_dim,
)


def resize(c: ShapeContext) -> Sequence[TensorShape]:
    """(N, H, W, C), (height, width) -> (N, height, width, C)"""
    batch, _, _, depth = dims_of(ranked(c, 0, 4), 4)
    size = c.input_as_shape(1)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([batch, height, width, depth])]


define(
    "ResizeArea",
    inputs=["images: T", "size: int32"],
    outputs=["resized_images: float"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double}",
        "align_corners: bool = false",
    ],
    shape=resize,
)
define(
    "ResizeBicubic",
    inputs=["images: T", "size: int32"],
    outputs=["resized_images: float"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ],
    shape=resize,
)
define(
    "ResizeBilinear",
    inputs=["images: T", "size: int32"],
    outputs=["resized_images: float"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ],
    shape=resize,
)
define(
    "ResizeNearestNeighbor",
    inputs=["images: T", "size: int32"],
    outputs=["resized_images: T"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ],
    shape=resize,
)
define(
    "ScaleAndTranslate",
    inputs=["images: T", "size: int32", "scale: float", "translation: float"],
    outputs=["resized_images: float"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}",
        'kernel_type: string = "lanczos3"',
        "antialias: bool = true",
    ],
    shape=resize,
)
define(
    "ResizeBilinearGrad",
    inputs=["grads: float", "original_image: T"],
    outputs=["output: T"],
    attrs=["T: floattype", "align_corners: bool = false", "half_pixel_centers: bool = false"],
    shape=like_input(1),
)
define(
    "ResizeBicubicGrad",
    inputs=["grads: float", "original_image: T"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "align_corners: bool = false", "half_pixel_centers: bool = false"],
    shape=like_input(1),
)
define(
    "ScaleAndTranslateGrad",
    inputs=["grads: T", "original_image: T", "scale: float", "translation: float"],
    outputs=["output: T"],
    attrs=["T: {float}", 'kernel_type: string = "lanczos3"', "antialias: bool = true"],
    shape=like_input(1),
)


def nearest_grad(c: ShapeContext) -> Sequence[TensorShape]:
    return resize(c)


define(
    "ResizeNearestNeighborGrad",
    inputs=["grads: T", "size: int32"],
    outputs=["output: T"],
    attrs=[
        "T: {uint8, int8, int32, half, float, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ],
    shape=nearest_grad,
)


def colours(c: ShapeContext) -> Sequence[TensorShape]:
    shape = ranked_at_least(c, 0, 1)
    return [replace_dim(shape, -1, merge_dims(shape[-1], 3, "The channels and 3"))]


define("HSVToRGB", inputs=["images: T"], outputs=["output: T"], attrs=["T: floattype = float"], shape=colours)
define("RGBToHSV", inputs=["images: T"], outputs=["output: T"], attrs=["T: floattype = float"], shape=colours)
define(
    "AdjustContrast",
    inputs=["images: T", "contrast_factor: float", "min_value: float", "max_value: float"],
    outputs=["output: float"],
    attrs=["T: {uint8, int8, int16, int32, int64, float, double}"],
    shape=at_least(3),
)
define(
    "AdjustContrastv2",
    inputs=["images: T", "contrast_factor: float"],
    outputs=["output: T"],
    attrs=["T: {half, float} = float"],
    shape=at_least(3),
)
define(
    "AdjustHue",
    inputs=["images: T", "delta: float"],
    outputs=["output: T"],
    attrs=["T: {half, float} = float"],
    shape=at_least(3),
)
define(
    "AdjustSaturation",
    inputs=["images: T", "scale: float"],
    outputs=["output: T"],
    attrs=["T: {half, float} = float"],
    shape=at_least(3),
)
