"""Suppression of boxes that overlap a better one."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, Dimension
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalar_value, vector, vectors

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
define(
    "NonMaxSuppressionWithOverlaps(overlaps, scores: float, max_output_size: int32, overlap_threshold, "
    "score_threshold: float) -> selected_indices: int32",
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
    return [vector(_selected(c)), SCALAR]


def _selected(c: ShapeContext) -> Dimension:
    return scalar_value(c, 2) if c.attrs["pad_to_max_output_size"] else None


@define(
    "NonMaxSuppressionV5(boxes, scores: T, max_output_size: int32, iou_threshold, score_threshold, "
    "soft_nms_sigma: T) -> selected_indices: int32, selected_scores: T, valid_outputs: int32",
    "T: {half, float} = float; pad_to_max_output_size: bool = false",
)
def suppression_scored(c: ShapeContext) -> Shapes:
    return [vector(_selected(c)), vector(_selected(c)), SCALAR]


define(
    "CombinedNonMaxSuppression(boxes, scores: float, max_output_size_per_class, max_total_size: int32, "
    "iou_threshold, score_threshold: float) "
    "-> nmsed_boxes, nmsed_scores, nmsed_classes: float, valid_detections: int32",
    "pad_per_class: bool = false; clip_boxes: bool = true",
)
