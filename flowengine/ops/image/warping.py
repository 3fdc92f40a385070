"""Images read at places that lie between pixels, and the parts of an image that hang together.

TensorFlow 1's contrib packages and TensorFlow Addons brought these ops.
"""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, of_rank, ranked, ranked_at_least


@define("Resampler, Addons>Resampler(data, warp: T) -> output: T", "T: {half, bfloat16, float, double}")
def resampled(c: ShapeContext) -> Shapes:
    """(N, H, W, C), places (N, ..., 2) -> (N, ..., C)"""
    data, places = c.input(0), ranked_at_least(c, 1, 2)
    if places.dims is None:
        return [UNKNOWN_SHAPE]
    # What is neither images nor pairs the kernel refuses, with another error than a shape's.
    depth = data.dims[3] if data.dims is not None and len(data.dims) == 4 else None
    return [TensorShape([*places.dims[:-1], depth])]


@define(
    "ResamplerGrad, Addons>ResamplerGrad(data, warp, grad_output: T) -> grad_data, grad_warp: T",
    "T: {half, bfloat16, float, double}",
    NotDifferentiable(),
)
def resampler_grad(c: ShapeContext) -> Shapes:
    """As the image and as the places."""
    return [ranked(c, 0, 4), ranked_at_least(c, 1, 2)]


@define(
    "ImageProjectiveTransform(images: dtype, transforms: float) -> transformed_images: dtype",
    "dtype: {uint8, int32, int64, half, float, double}; interpolation: string",
)
def projected_alike(c: ShapeContext) -> Shapes:
    """(N, H, W, C), (N or 1, 8) -> (N, H, W, C)"""
    images = ranked(c, 0, 4)
    _, numbers = dims_of(ranked(c, 1, 2), 2)
    if numbers not in (None, 8):
        raise InvalidArgumentError(f"a transform has 8 numbers, but transforms have shape {c.input(1)}")
    return [images]


define(
    "ImageConnectedComponents, Addons>ImageConnectedComponents(image: dtype) -> components: int64",
    "dtype: {int64, int32, uint16, int16, uint8, int8, half, float, double, bool, string}",
    NotDifferentiable(),
    shape=of_rank(3),
)
