"""Boxes in images: crops, drawings, distorted samples."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import fixed, like_input, merge_dims, ranked


@define(
    "CropAndResize(image: T, boxes: float, box_ind, crop_size: int32) -> crops: float",
    "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
    "method: {'bilinear', 'nearest'} = 'bilinear'; extrapolation_value: float = 0.0",
)
def crop_and_resize(c: ShapeContext) -> Shapes:
    """(N, H, W, C), boxes (n, 4), which image each, (height, width) -> (n, height, width, C)"""
    depth = ranked(c, 0, 4)[3]
    count = merge_dims(ranked(c, 1, 2)[0], ranked(c, 2, 1)[0], "The number of boxes and of their images")
    size = c.input_as_shape(3)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([count, height, width, depth])]


@define(
    "CropAndResizeGradImage(grads, boxes: float, box_ind, image_size: int32) -> output: T",
    "T: {float, half, double}; method: {'bilinear', 'nearest'} = 'bilinear'",
)
def crop_grad_image(c: ShapeContext) -> Shapes:
    shape = c.input_as_shape(3)
    return [shape if shape.rank == 4 else unknown_of_rank(4)]


define(
    "CropAndResizeGradBoxes(grads: float, image: T, boxes: float, box_ind: int32) -> output: float",
    "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; method: {'bilinear'} = 'bilinear'",
    shape=like_input(2),
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
    "stateful; T: {uint8, int8, int16, int32, int64}; seed, seed2: int = 0",
    "min_object_covered: float = 0.1; aspect_ratio_range: list(float) = [0.75, 1.33]",
    "area_range: list(float) = [0.05, 1.0]; max_attempts: int = 100",
    "use_image_if_no_bounding_boxes: bool = false",
    NotDifferentiable(),
    shape=fixed([3], [3], [1, 1, 4]),
)
define(
    "SampleDistortedBoundingBoxV2(image_size: T, bounding_boxes, min_object_covered: float) "
    "-> begin, size: T, bboxes: float",
    "stateful; T: {uint8, int8, int16, int32, int64}; seed, seed2: int = 0",
    "aspect_ratio_range: list(float) = [0.75, 1.33]; area_range: list(float) = [0.05, 1.0]",
    "max_attempts: int = 100; use_image_if_no_bounding_boxes: bool = false",
    NotDifferentiable(),
    shape=fixed([3], [3], [1, 1, 4]),
)
