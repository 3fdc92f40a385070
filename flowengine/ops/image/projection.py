"""Projections of images onto others: turned, shifted, sheared, in perspective."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, dims_of, ranked

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
