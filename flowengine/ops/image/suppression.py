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
