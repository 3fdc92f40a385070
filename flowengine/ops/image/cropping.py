"""Parts of images, drawn at random or around given places."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, fixed, merge_dims, ranked

# Parts of an image, drawn at random.

_SIZES: Final = "T: {uint8, int8, int16, int32, int64}"
_RANGES: Final = (
    "aspect_ratio_range: list(float) = [0.75, 1.33]; area_range: list(float) = [0.05, 1.0]; "
    "max_attempts: int = 100; use_image_if_no_bounding_boxes: bool = false"
)


@define(
    "RandomCrop(image: T, size: int64) -> output: T",
    "stateful; T: {uint8, int8, int16, int32, int64, float, double}; seed, seed2: int = 0",
    NotDifferentiable(),
)
def random_crop(c: ShapeContext) -> Shapes:
    depth = ranked(c, 0, 3)[2]
    size = c.input_as_shape(1)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([height, width, depth])]


define(
    "SampleDistortedBoundingBox(image_size: T, bounding_boxes: float) -> begin, size: T, bboxes: float",
    f"stateful; {_SIZES}; seed, seed2: int = 0; min_object_covered: float = 0.1",
    _RANGES,
    NotDifferentiable(),
    shape=fixed([3], [3], [1, 1, 4]),
)
define(
    "SampleDistortedBoundingBoxV2(image_size: T, bounding_boxes, min_object_covered: float) "
    "-> begin, size: T, bboxes: float",
    f"stateful; {_SIZES}; seed, seed2: int = 0",
    _RANGES,
    NotDifferentiable(),
    shape=fixed([3], [3], [1, 1, 4]),
)
define(
    "StatelessSampleDistortedBoundingBox(image_size: T, bounding_boxes, min_object_covered: float, "
    "seed: Tseed) -> begin, size: T, bboxes: float",
    f"{_SIZES}; Tseed: indextype",
    _RANGES,
    NotDifferentiable(),
    shape=fixed([3], [3], [1, 1, 4]),
)


# Windows of images, around a place of each.


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
