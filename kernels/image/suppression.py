"""Suppression of boxes that overlap a better one."""

from __future__ import annotations

import heapq
from typing import Any, Final

import numpy as np

from flowengine.core.abandonment import check_wanted
from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.image.suppression_on_device import chosen_on_device
from flowengine.kernels.numpy.order.suppression import chosen_of
from flowengine.kernels.registry import kernel

# Suppression of boxes that overlap a better one: NonMaxSuppression in its versions without Gaussian decay.
#
# A box is two corners, (y1, x1, y2, x2), in any order.


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
    return chosen_of(boxes, scores, _most(limit, boxes), iou, threshold)


def _most(limit: Any, boxes: Array) -> int:
    """How many boxes may be chosen: all of them for a negative limit, as in TensorFlow."""
    return int(limit) if limit >= 0 else len(boxes)


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
    return chosen_on_device(xp, boxes, scores, _most(limit, boxes), float(iou), float(threshold))


# Suppression of boxes that also returns scores, uses given overlaps, or handles many classes at once.
#
# Where scores decay, a box that overlaps chosen ones comes later, with less of its score for each of
# them, and
# is compared with each only once.

HOST: Final = "a box is kept or not by those kept before it, one after another"

_ZERO: Final = np.float32(0)
#: The least int32: no number of boxes is refused.
_NO_LEAST: Final = -(1 << 31)


def _limit(value: Any, name: str, least: int = 0) -> int:
    """How many at most; InvalidArgumentError for less than `least`."""
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"{name} must be 0-D, got shape {shape_text(value)}")
    if int(value) < least:
        raise InvalidArgumentError(f"{name} must be at least {least}, but is {int(value)}")
    return int(value)


def _check_scalars(**values: Any) -> None:
    for name, value in values.items():
        if getattr(value, "ndim", 0):
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {shape_text(value)}")


# --------------------------------------------------------------------------- scores that decay


def _overlaps(corners: Array, box: int, others: Array) -> Array:
    """How much a box overlaps others, as parts of what both cover (float32); 0 where one has no area.

    corners   (4, n): top, left, bottom, right
    """
    mine, theirs = corners[:, box], corners[:, others]
    extents = np.minimum(mine[2:, None], theirs[2:]) - np.maximum(mine[:2, None], theirs[:2])
    np.maximum(extents, _ZERO, out=extents)
    shared = extents[0] * extents[1]
    area = (mine[2] - mine[0]) * (mine[3] - mine[1])
    areas = (theirs[2] - theirs[0]) * (theirs[3] - theirs[1])
    result: Array = shared / (area + areas - shared)
    result[(areas <= 0) | (area <= 0)] = 0
    return result


def _decayed(
    boxes: Array, scores: Array, limit: int, ratio: Any, least: Any, sigma: Any
) -> tuple[Array, Array]:
    """Chosen boxes (int32) and their scores where overlaps lessen them; all in the type of the scores."""
    of = scores.dtype.type
    wide = boxes.astype(np.float32)
    corners = np.concatenate(
        [np.minimum(wide[:, :2], wide[:, 2:]), np.maximum(wide[:, :2], wide[:, 2:])], axis=1
    ).T
    scale = of(-0.5) / of(sigma)
    waiting = [(-float(scores[i]), int(i), 0) for i in np.flatnonzero(scores > least)]
    heapq.heapify(waiting)
    chosen, marks = np.empty(limit, np.intp), np.empty(limit, scores.dtype)
    count = 0
    while waiting and count < limit:
        negative, box, seen = heapq.heappop(waiting)
        before = of(-negative)
        overlap = _overlaps(corners, box, chosen[seen:count])
        if (overlap >= np.float32(ratio)).any():
            continue
        close = overlap.astype(scores.dtype)
        weights = np.exp(scale * close * close)
        # The latest choice comes first, as overlapping boxes have scores close to each other.
        after = np.multiply.accumulate(np.concatenate([[before], weights[::-1]]).astype(scores.dtype))[-1]
        if after == before:
            chosen[count], marks[count] = box, before
            count += 1
        elif after > least:
            heapq.heappush(waiting, (-float(after), box, count))
    return chosen[:count].astype(np.int32), marks[:count]


@kernel("NonMaxSuppressionV5", fresh=True)
def non_max_suppression_v5(
    boxes: Array,
    scores: Array,
    max_output_size: Any,
    iou_threshold: Any,
    score_threshold: Any,
    soft_nms_sigma: Any,
    *,
    pad_to_max_output_size: bool,
) -> Any:
    """Indices of chosen boxes, their scores, and how many are real.

    With a `soft_nms_sigma` above 0 a score falls by exp(-overlap^2 / (2 sigma)) for each chosen box.
    """
    limit = _most(_limit(max_output_size, "max_output_size", _NO_LEAST), scores)
    _check_scalars(soft_nms_sigma=soft_nms_sigma)
    check_suppressed(boxes, scores, max_output_size, iou_threshold, score_threshold)
    if soft_nms_sigma > 0:
        kept, marks = _decayed(
            boxes, scores, min(limit, len(scores)), iou_threshold, score_threshold, soft_nms_sigma
        )
    else:
        kept = chosen_of(boxes, scores, limit, iou_threshold, score_threshold)
        marks = scores[kept]
    count = np.int32(kept.size)
    if pad_to_max_output_size:
        missing = limit - kept.size
        kept = np.concatenate([kept, np.zeros(missing, np.int32)])
        marks = np.concatenate([marks, np.zeros(missing, marks.dtype)])
    return kept, marks, count


# --------------------------------------------------------------------------- overlaps that are given


@kernel("NonMaxSuppressionWithOverlaps", fresh=True)
def non_max_suppression_with_overlaps(
    overlaps: Array, scores: Array, max_output_size: Any, overlap_threshold: Any, score_threshold: Any
) -> Array:
    """Indices of boxes by falling score, without those that overlap a chosen one by a threshold or more.

    overlaps   (n, n), a row for the box that may have to go
    """
    limit = _most(_limit(max_output_size, "max_output_size", _NO_LEAST), scores)
    _check_scalars(overlap_threshold=overlap_threshold, score_threshold=score_threshold)
    if overlaps.ndim != 2 or overlaps.shape[0] != overlaps.shape[1]:
        raise InvalidArgumentError(f"overlaps must be a square matrix, got shape {shape_text(overlaps)}")
    if scores.ndim != 1 or len(scores) != len(overlaps):
        raise InvalidArgumentError(
            f"scores of shape {shape_text(scores)} do not fit overlaps of shape {shape_text(overlaps)}"
        )
    stays = scores > score_threshold
    kept: list[int] = []
    for box in np.argsort(np.negative(scores), kind="stable").tolist():
        if len(kept) >= limit:
            break
        if stays[box]:
            kept.append(box)
            stays &= ~(overlaps[:, box] >= overlap_threshold)
    return np.array(kept, np.int32)


# --------------------------------------------------------------------------- several classes at once


def _check_combined(boxes: Array, scores: Array, iou_threshold: Any) -> None:
    if boxes.ndim != 4 or boxes.shape[3] != 4:
        raise InvalidArgumentError(f"boxes must be 4-D with 4 columns, got shape {shape_text(boxes)}")
    if scores.ndim != 3 or scores.shape[:2] != boxes.shape[:2]:
        raise InvalidArgumentError(
            f"scores of shape {shape_text(scores)} do not fit boxes of shape {shape_text(boxes)}: "
            "[images, boxes, classes] are wanted"
        )
    if boxes.shape[2] not in (1, scores.shape[2]):
        raise InvalidArgumentError(
            f"boxes must be of 1 class or of {scores.shape[2]}, got shape {shape_text(boxes)}"
        )
    if not 0 <= float(iou_threshold) <= 1:
        raise InvalidArgumentError(f"iou_threshold must be in [0, 1], not {float(iou_threshold):g}")


@kernel("CombinedNonMaxSuppression", fresh=True)
def combined_non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any,
    score_threshold: Any,
    *,
    pad_per_class: bool,
    clip_boxes: bool,
) -> Any:
    """The best boxes of each image, suppressed class by class: boxes, scores, classes, and how many are real.

    boxes    (N, n, classes, 4), or (N, n, 1, 4) for all classes alike; scores (N, n, classes)
    """
    per_class = _limit(max_output_size_per_class, "max_output_size_per_class", 1)
    total = _limit(max_total_size, "max_total_size", 1)
    _check_scalars(iou_threshold=iou_threshold, score_threshold=score_threshold)
    _check_combined(boxes, scores, iou_threshold)
    batch, count, classes = scores.shape
    if pad_per_class:
        total = min(total, per_class * classes)
    # Overlaps as great as the threshold stay here, unlike in the ops of one class.
    ratio = np.nextafter(np.float32(iou_threshold), np.float32(np.inf))
    out = np.zeros((batch, total, 4), np.float32)
    marks, kinds = np.zeros((batch, total), np.float32), np.zeros((batch, total), np.float32)
    valid = np.zeros(batch, np.int32)
    for image in range(batch if scores.size else 0):
        found: list[tuple[Array, Array, int]] = []
        for kind in range(classes):
            check_wanted()
            of_kind = boxes[image, :, kind if boxes.shape[2] > 1 else 0]
            own = np.ascontiguousarray(scores[image, :, kind])
            kept = chosen_of(of_kind, own, min(per_class, count), ratio, score_threshold)
            found.append((of_kind[kept], own[kept], kind))
        every = np.concatenate([each[1] for each in found])
        best = np.argsort(-every, kind="stable")[:total]
        valid[image] = best.size
        out[image, : best.size] = np.concatenate([each[0] for each in found])[best]
        marks[image, : best.size] = every[best]
        kinds[image, : best.size] = np.concatenate([np.full(len(m), k) for _, m, k in found])[best]
    return np.clip(out, 0, 1) if clip_boxes else out, marks, kinds, valid
