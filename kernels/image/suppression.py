"""Suppression of boxes that overlap a better one: NonMaxSuppression in its versions without Gaussian decay.

A box is two corners, (y1, x1, y2, x2), in any order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.image.suppression_on_device import chosen_on_device
from flowengine.kernels.numpy.order.suppression import chosen_of
from flowengine.kernels.registry import kernel


def check_suppressed(boxes: Array, scores: Array, limit: Any, iou: Any, threshold: Any) -> None:
    """Raise InvalidArgumentError where shapes or a threshold do not fit."""
    if getattr(limit, "ndim", 0):
        raise InvalidArgumentError(f"max_output_size must be 0-D, got shape {shape_text(limit)}")
    for name, value in (("iou_threshold", iou), ("score_threshold", threshold)):
        if getattr(value, "ndim", 0):
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {shape_text(value)}")
    if not 0 <= float(iou) <= 1:
        raise InvalidArgumentError(f"iou_threshold must be in [0, 1], not {float(iou):g}")
    if boxes.ndim != 2:
        raise InvalidArgumentError(f"boxes must be 2-D, got shape {shape_text(boxes)}")
    if boxes.shape[1] != 4:
        raise InvalidArgumentError(f"boxes must have 4 columns, got shape {shape_text(boxes)}")
    if scores.ndim != 1:
        raise InvalidArgumentError(f"scores must be 1-D, got shape {shape_text(scores)}")
    if scores.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError(
            f"scores has incompatible shape {shape_text(scores)} with boxes {shape_text(boxes)}"
        )


def suppressed(boxes: Array, scores: Array, limit: Any, iou: Any, threshold: Any) -> Array:
    """Indices (int32) of at most `limit` boxes above a threshold, none close to a better one."""
    check_suppressed(boxes, scores, limit, iou, threshold)
    return chosen_of(boxes, scores, limit, iou, threshold)


@kernel("NonMaxSuppression", fresh=True, device="CPU")
def non_max_suppression(boxes: Array, scores: Array, max_output_size: Any, *, iou_threshold: float) -> Any:
    """Indices of boxes by falling score, without those that overlap a chosen one by a ratio or more.

    Of boxes with one score the first comes first.
    """
    return suppressed(boxes, scores, max_output_size, iou_threshold, -np.inf)


#: What TensorFlow's kernels for GPUs take from host memory.
_NUMBERS: Final = ("max_output_size", "iou_threshold")
_THRESHOLDS: Final = (*_NUMBERS, "score_threshold")


@kernel("NonMaxSuppressionV2", fresh=True, host=_NUMBERS, looks=True)
def non_max_suppression_v2(
    xp: Any, boxes: Array, scores: Array, max_output_size: Any, iou_threshold: Any
) -> Any:
    """`NonMaxSuppression` with the ratio as a tensor."""
    return _suppressed_anywhere(xp, boxes, scores, max_output_size, iou_threshold, -np.inf)


@kernel("NonMaxSuppressionV3", fresh=True, host=_THRESHOLDS, looks=True)
def non_max_suppression_v3(
    xp: Any, boxes: Array, scores: Array, max_output_size: Any, iou_threshold: Any, score_threshold: Any
) -> Any:
    """`NonMaxSuppressionV2` without boxes whose score is not above a threshold."""
    return _suppressed_anywhere(xp, boxes, scores, max_output_size, iou_threshold, score_threshold)


@kernel("NonMaxSuppressionV4", fresh=True, host=(*_THRESHOLDS, "valid_outputs"), looks=True)
def non_max_suppression_v4(
    xp: Any,
    boxes: Array,
    scores: Array,
    max_output_size: Any,
    iou_threshold: Any,
    score_threshold: Any,
    *,
    pad_to_max_output_size: bool,
) -> Any:
    """`NonMaxSuppressionV3`, filled up with zeros on demand, and how many indices are real."""
    kept = _suppressed_anywhere(xp, boxes, scores, max_output_size, iou_threshold, score_threshold)
    count = np.int32(kept.size)
    if pad_to_max_output_size:
        kept = xp.concatenate([kept, xp.zeros(max(int(max_output_size) - kept.size, 0), np.int32)])
    return kept, count


def _suppressed_anywhere(xp: Any, boxes: Array, scores: Array, limit: Any, iou: Any, threshold: Any) -> Array:
    """`suppressed`, also of a device's boxes."""
    if in_host_memory(boxes):
        return suppressed(boxes, scores, limit, iou, threshold)
    check_suppressed(boxes, scores, limit, iou, threshold)
    return chosen_on_device(xp, boxes, scores, int(limit), float(iou), float(threshold))
