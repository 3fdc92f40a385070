"""Images resized, and projected onto others."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, dims_of, like_input, ranked

# Resizing of images, and its gradients.


@define(
    "ResizeArea(images: T, size: int32) -> resized_images: float", "T: imagetype; align_corners: bool = false"
)
@define(
    "ResizeBicubic(images: T, size: int32) -> resized_images: float",
    "T: imagetype; align_corners, half_pixel_centers: bool = false",
)
@define(
    "ResizeBilinear(images: T, size: int32) -> resized_images: float",
    "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}",
    "align_corners, half_pixel_centers: bool = false",
)
@define(
    "ResizeNearestNeighbor(images: T, size: int32) -> resized_images: T",
    "T: imagetype; align_corners, half_pixel_centers: bool = false",
)
@define(
    "ScaleAndTranslate(images: T, size: int32, scale, translation: float) -> resized_images: float",
    "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}",
    "kernel_type: string = 'lanczos3'; antialias: bool = true",
)
def resize(c: ShapeContext) -> Shapes:
    """(N, H, W, C), (height, width) -> (N, height, width, C)"""
    batch, _, _, depth = dims_of(ranked(c, 0, 4), 4)
    size = c.input_as_shape(1)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([batch, height, width, depth])]


define(
    "ResizeBilinearGrad(grads: float, original_image: T) -> output: T",
    "T: floattype; align_corners, half_pixel_centers: bool = false",
    shape=like_input(1),
)
define(
    "ResizeBicubicGrad(grads: float, original_image: T) -> output: T",
    "T: {float, double}; align_corners, half_pixel_centers: bool = false",
    shape=like_input(1),
)
define(
    "ScaleAndTranslateGrad(grads, original_image: T, scale, translation: float) -> output: T",
    "T: {float}; kernel_type: string = 'lanczos3'; antialias: bool = true",
    shape=like_input(1),
)


@define(
    "ResizeNearestNeighborGrad(grads: T, size: int32) -> output: T",
    "T: {uint8, int8, int32, half, float, double, bfloat16}; align_corners, half_pixel_centers: bool = false",
)
def nearest_grad(c: ShapeContext) -> Shapes:
    return resize(c)


# Projections of images onto others: turned, shifted, sheared, in perspective.

_ATTRS: Final = (
    "dtype: {uint8, int32, int64, half, bfloat16, float, double}; interpolation: string; "
    "fill_mode: string = 'CONSTANT'"
)


@define(
    "ImageProjectiveTransformV2(images: dtype, transforms: float, output_shape: int32) "
    "-> transformed_images: dtype",
    _ATTRS,
)
@define(
    "ImageProjectiveTransformV3(images: dtype, transforms: float, output_shape: int32, fill_value: float) "
    "-> transformed_images: dtype",
    _ATTRS,
)
def projected(c: ShapeContext) -> Shapes:
    """(N, H, W, C), (N or 1, 8), (height, width) -> (N, height, width, C)"""
    batch, _, _, depth = dims_of(ranked(c, 0, 4), 4)
    _, numbers = dims_of(ranked(c, 1, 2), 2)
    if numbers not in (None, 8):
        raise InvalidArgumentError(f"a transform has 8 numbers, but transforms have shape {c.input(1)}")
    ranked(c, 2, 1)
    if c.num_inputs > 3:
        check_scalars(c, 3)
    size = c.input_as_shape(2)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([batch, height, width, depth])]
