"""Images: boxes, crops and suppression of overlaps."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, Dimension, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    at_least,
    dims_of,
    fixed,
    like_input,
    merge_dims,
    ranked,
    scalar_value,
    vector,
    vectors,
)

define(
    "NonMaxSuppression",
    inputs=["boxes: float", "scores: float", "max_output_size: int32"],
    outputs=["selected_indices: int32"],
    attrs=["iou_threshold: float = 0.5"],
    shape=vectors,
)
define(
    "NonMaxSuppressionV2",
    inputs=["boxes: T", "scores: T", "max_output_size: int32", "iou_threshold: T_threshold"],
    outputs=["selected_indices: int32"],
    attrs=["T: {half, float} = float", "T_threshold: {half, float} = float"],
    shape=vectors,
)
define(
    "NonMaxSuppressionV3",
    inputs=[
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T_threshold",
        "score_threshold: T_threshold",
    ],
    outputs=["selected_indices: int32"],
    attrs=["T: {half, float} = float", "T_threshold: {half, float} = float"],
    shape=vectors,
)
define(
    "NonMaxSuppressionWithOverlaps",
    inputs=[
        "overlaps: float",
        "scores: float",
        "max_output_size: int32",
        "overlap_threshold: float",
        "score_threshold: float",
    ],
    outputs=["selected_indices: int32"],
    shape=vectors,
)


def suppression_padded(c: ShapeContext) -> Sequence[TensorShape]:
    """Chosen boxes, as many as allowed if padded; and how many are real."""
    return [vector(_selected(c)), SCALAR]


def _selected(c: ShapeContext) -> Dimension:
    return scalar_value(c, 2) if c.attrs["pad_to_max_output_size"] else None


define(
    "NonMaxSuppressionV4",
    inputs=[
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T_threshold",
        "score_threshold: T_threshold",
    ],
    outputs=["selected_indices: int32", "valid_outputs: int32"],
    attrs=[
        "T: {half, float} = float",
        "T_threshold: {half, float} = float",
        "pad_to_max_output_size: bool = false",
    ],
    shape=suppression_padded,
)


def suppression_scored(c: ShapeContext) -> Sequence[TensorShape]:
    return [vector(_selected(c)), vector(_selected(c)), SCALAR]


define(
    "NonMaxSuppressionV5",
    inputs=[
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T",
        "score_threshold: T",
        "soft_nms_sigma: T",
    ],
    outputs=["selected_indices: int32", "selected_scores: T", "valid_outputs: int32"],
    attrs=["T: {half, float} = float", "pad_to_max_output_size: bool = false"],
    shape=suppression_scored,
)


def crop_and_resize(c: ShapeContext) -> Sequence[TensorShape]:
    """(N, H, W, C), boxes (n, 4), which image each, (height, width) -> (n, height, width, C)"""
    depth = ranked(c, 0, 4)[3]
    count = merge_dims(ranked(c, 1, 2)[0], ranked(c, 2, 1)[0], "The number of boxes and of their images")
    size = c.input_as_shape(3)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([count, height, width, depth])]


define(
    "CropAndResize",
    inputs=["image: T", "boxes: float", "box_ind: int32", "crop_size: int32"],
    outputs=["crops: float"],
    attrs=[
        "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
        "method: {'bilinear', 'nearest'} = \"bilinear\"",
        "extrapolation_value: float = 0.0",
    ],
    shape=crop_and_resize,
)


def crop_grad_image(c: ShapeContext) -> Sequence[TensorShape]:
    shape = c.input_as_shape(3)
    return [shape if shape.rank == 4 else unknown_of_rank(4)]


define(
    "CropAndResizeGradImage",
    inputs=["grads: float", "boxes: float", "box_ind: int32", "image_size: int32"],
    outputs=["output: T"],
    attrs=["T: {float, half, double}", "method: {'bilinear', 'nearest'} = \"bilinear\""],
    shape=crop_grad_image,
)
define(
    "CropAndResizeGradBoxes",
    inputs=["grads: float", "image: T", "boxes: float", "box_ind: int32"],
    outputs=["output: float"],
    attrs=[
        "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
        "method: {'bilinear'} = \"bilinear\"",
    ],
    shape=like_input(2),
)
define(
    "DrawBoundingBoxes",
    inputs=["images: T", "boxes: float"],
    outputs=["output: T"],
    attrs=["T: {float, half} = float"],
    shape=at_least(3),
)
define(
    "DrawBoundingBoxesV2",
    inputs=["images: T", "boxes: float", "colors: float"],
    outputs=["output: T"],
    attrs=["T: {float, half} = float"],
    shape=at_least(3),
)


def glimpse(c: ShapeContext) -> Sequence[TensorShape]:
    batch, _, _, depth = dims_of(ranked(c, 0, 4), 4)
    size = c.input_as_shape(1)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([merge_dims(batch, ranked(c, 2, 2)[0]), height, width, depth])]


define(
    "ExtractGlimpse",
    inputs=["input: float", "size: int32", "offsets: float"],
    outputs=["glimpse: float"],
    attrs=[
        "centered: bool = true",
        "normalized: bool = true",
        "uniform_noise: bool = true",
        'noise: string = "uniform"',
    ],
    shape=glimpse,
)


def random_crop(c: ShapeContext) -> Sequence[TensorShape]:
    depth = ranked(c, 0, 3)[2]
    size = c.input_as_shape(1)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([height, width, depth])]


define(
    "RandomCrop",
    inputs=["image: T", "size: int64"],
    outputs=["output: T"],
    attrs=["T: {uint8, int8, int16, int32, int64, float, double}", "seed: int = 0", "seed2: int = 0"],
    is_stateful=True,
    shape=random_crop,
)
define(
    "SampleDistortedBoundingBox",
    inputs=["image_size: T", "bounding_boxes: float"],
    outputs=["begin: T", "size: T", "bboxes: float"],
    attrs=[
        "T: {uint8, int8, int16, int32, int64}",
        "seed: int = 0",
        "seed2: int = 0",
        "min_object_covered: float = 0.1",
        "aspect_ratio_range: list(float) = [0.75, 1.33]",
        "area_range: list(float) = [0.05, 1.0]",
        "max_attempts: int = 100",
        "use_image_if_no_bounding_boxes: bool = false",
    ],
    is_stateful=True,
    shape=fixed([3], [3], [1, 1, 4]),
)
define(
    "SampleDistortedBoundingBoxV2",
    inputs=["image_size: T", "bounding_boxes: float", "min_object_covered: float"],
    outputs=["begin: T", "size: T", "bboxes: float"],
    attrs=[
        "T: {uint8, int8, int16, int32, int64}",
        "seed: int = 0",
        "seed2: int = 0",
        "aspect_ratio_range: list(float) = [0.75, 1.33]",
        "area_range: list(float) = [0.05, 1.0]",
        "max_attempts: int = 100",
        "use_image_if_no_bounding_boxes: bool = false",
    ],
    is_stateful=True,
    shape=fixed([3], [3], [1, 1, 4]),
)
define(
    "CombinedNonMaxSuppression",
    inputs=[
        "boxes: float",
        "scores: float",
        "max_output_size_per_class: int32",
        "max_total_size: int32",
        "iou_threshold: float",
        "score_threshold: float",
    ],
    outputs=["nmsed_boxes: float", "nmsed_scores: float", "nmsed_classes: float", "valid_detections: int32"],
    attrs=["pad_per_class: bool = false", "clip_boxes: bool = true"],
)
