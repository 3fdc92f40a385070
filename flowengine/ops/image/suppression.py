"""Suppression of boxes that overlap a better one."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    dims_of,
    merge_dims,
    multiply_dims,
    ranked,
    scalar_value,
    smaller,
    vector,
    vectors,
)

# Suppression of boxes that overlap a better one.

define(
    "NonMaxSuppression(boxes, scores: float, max_output_size: int32) -> selected_indices: int32",
    "iou_threshold: float = 0.5",
    NotDifferentiable(),
    shape=vectors,
)
define(
    "NonMaxSuppressionV2(boxes, scores: T, max_output_size: int32, iou_threshold: T_threshold) "
    "-> selected_indices: int32",
    "T, T_threshold: {half, float} = float",
    NotDifferentiable(),
    shape=vectors,
)
define(
    "NonMaxSuppressionV3(boxes, scores: T, max_output_size: int32, iou_threshold, "
    "score_threshold: T_threshold) -> selected_indices: int32",
    "T, T_threshold: {half, float} = float",
    NotDifferentiable(),
    shape=vectors,
)


@define(
    "NonMaxSuppressionV4(boxes, scores: T, max_output_size: int32, iou_threshold, "
    "score_threshold: T_threshold) -> selected_indices, valid_outputs: int32",
    "T, T_threshold: {half, float} = float; pad_to_max_output_size: bool = false",
    NotDifferentiable(),
)
def suppression_padded(c: ShapeContext) -> Shapes:
    """Chosen boxes, as many as allowed if padded; and how many are real."""
    return [vector(selected_count(c)), SCALAR]


def selected_count(c: ShapeContext) -> Dimension:
    """How many boxes an op with `pad_to_max_output_size` gives."""
    return scalar_value(c, 2) if c.attrs["pad_to_max_output_size"] else None


# Suppression of boxes: by given overlaps, with scores, and of several classes at once.

define(
    "NonMaxSuppressionWithOverlaps(overlaps, scores: float, max_output_size: int32, overlap_threshold, "
    "score_threshold: float) -> selected_indices: int32",
    NotDifferentiable(),
    shape=vectors,
)


@define(
    "NonMaxSuppressionV5(boxes, scores: T, max_output_size: int32, iou_threshold, score_threshold, "
    "soft_nms_sigma: T) -> selected_indices: int32, selected_scores: T, valid_outputs: int32",
    "T: {half, float} = float; pad_to_max_output_size: bool = false",
    NotDifferentiable(),
)
def suppression_scored(c: ShapeContext) -> Shapes:
    """Chosen boxes and their scores, as many as allowed if padded; and how many are real."""
    return [vector(selected_count(c)), vector(selected_count(c)), SCALAR]


@define(
    "CombinedNonMaxSuppression(boxes, scores: float, max_output_size_per_class, max_total_size: int32, "
    "iou_threshold, score_threshold: float) "
    "-> nmsed_boxes, nmsed_scores, nmsed_classes: float, valid_detections: int32",
    "pad_per_class: bool = false; clip_boxes: bool = true",
    NotDifferentiable(),
)
def suppression_combined(c: ShapeContext) -> Shapes:
    """(N, boxes, classes or 1, 4), (N, boxes, classes) -> (N, most, 4), twice (N, most), (N,)"""
    boxes, scores = dims_of(ranked(c, 0, 4), 4), dims_of(ranked(c, 1, 3), 3)
    batch = merge_dims(boxes[0], scores[0], "The number of images of boxes and of scores")
    merge_dims(boxes[1], scores[1], "The number of boxes and of scores")
    if boxes[2] not in (None, 1):
        merge_dims(boxes[2], scores[2], "The classes of boxes and of scores")
    if boxes[3] not in (None, 4):
        raise InvalidArgumentError(f"a box has 4 numbers, but boxes have shape {c.input(0)}")
    check_scalars(c, 2, 3, 4, 5)
    most = scalar_value(c, 3)
    if c.attrs["pad_per_class"]:
        most = smaller(most, multiply_dims(scalar_value(c, 2), scores[2]))
    if most is not None and most < 0:
        most = None
    return [
        TensorShape([batch, most, 4]),
        TensorShape([batch, most]),
        TensorShape([batch, most]),
        vector(batch),
    ]
