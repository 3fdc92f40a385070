"""Windows of images, around a place of each."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, merge_dims, ranked


@define(
    "ExtractGlimpse(input: float, size: int32, offsets: float) -> glimpse: float",
    "centered, normalized, uniform_noise: bool = true; noise: string = 'uniform'",
    NotDifferentiable(),
)
@define(
    "ExtractGlimpseV2(input: float, size: int32, offsets: float) -> glimpse: float",
    "centered, normalized, uniform_noise: bool = true; noise: string = 'uniform'",
    NotDifferentiable(),
)
def glimpse(c: ShapeContext) -> Shapes:
    batch, _, _, depth = dims_of(ranked(c, 0, 4), 4)
    size = c.input_as_shape(1)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([merge_dims(batch, ranked(c, 2, 2)[0]), height, width, depth])]
