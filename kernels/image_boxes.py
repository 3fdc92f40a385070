"""Boxes in images: crops resized to one size, and suppression of boxes that overlap a better one.

A box is (y1, x1, y2, x2). For crops it is in units of the image, 0 to 1 from its first to its last pixel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError
from flowengine.kernels.registry import kernel
from flowengine.kernels.ufuncs import shape_text

#: Boxes compared with each other at a time: what they need stays in the nearest cache, and mostly the first
#: few of thousands decide.
_BOXES_AT_A_TIME: Final = 64
#: As many more than are still wanted are looked at.
_SPARE: Final = 16
#: Of many more scores, so many of the best are found before all are sorted.
_BEST: Final = 255
#: Which of so many boxes come before which, or are the same.
_EARLIER: Final = np.arange(_BOXES_AT_A_TIME)[:, None] >= np.arange(_BOXES_AT_A_TIME)
#: A score and its index are sorted as one integer, which processors do in vectors.
_INDEX_BITS: Final = 32
_INDEX: Final = np.int64((1 << _INDEX_BITS) - 1)
_MAGNITUDE: Final = np.int32(0x7FFFFFFF)
_ZERO: Final = np.float32(0)


def _check_boxes(boxes: Array, box_ind: Array, batch: int) -> None:
    if boxes.size == 0 and box_ind.size == 0 and boxes.ndim == 2:
        return
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InvalidArgumentError(f"boxes must be 2-D with 4 columns, not {shape_text(boxes)}")
    if box_ind.ndim != 1 or box_ind.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError(
            f"box_ind must be a vector with an entry for each box, not {shape_text(box_ind)}"
        )
    if box_ind.size and (int(box_ind.min()) < 0 or int(box_ind.max()) >= batch):
        raise OutOfRangeError(f"box_ind has values outside [0, {batch})")


def _crop_positions(low: Any, high: Any, count: int, size: int) -> Array:
    """Where each row (or column) of a crop lies in the image, float32."""
    edge = np.float32(size - 1)
    if count > 1:
        scale = (high - low) * edge / np.float32(count - 1)
        positions: Array = low * edge + np.arange(count, dtype=np.float32) * scale
        return positions
    return np.full(1, np.float32(0.5) * (low + high) * edge, np.float32)


def _crop_cost(image: Array, boxes: Array, box_ind: Array, crop_size: Array) -> float:
    return float(boxes.shape[0] * np.prod(crop_size, dtype=np.float64) * image.shape[-1] * 0.02)


@kernel("CropAndResize", fresh=True, heavy=_crop_cost)
def crop_and_resize(
    image: Array,
    boxes: Array,
    box_ind: Array,
    crop_size: Array,
    *,
    method: bytes,
    extrapolation_value: float,
) -> Any:
    """Cut boxes out of (N, H, W, C) and resize them; returns float32 (boxes, height, width, C).

    What lies outside of the image is `extrapolation_value`. OutOfRangeError where `box_ind` names no
    image.
    """
    if image.ndim != 4:
        raise InvalidArgumentError(f"input image must be 4-D, not {shape_text(image)}")
    batch, height, width, depth = image.shape
    if height <= 0 or width <= 0:
        raise InvalidArgumentError("image dimensions must be positive")
    _check_boxes(boxes, box_ind, batch)
    if crop_size.ndim != 1 or crop_size.shape[0] != 2:
        raise InvalidArgumentError(f"crop_size must be 1-D with two elements, not {shape_text(crop_size)}")
    rows, columns = crop_size.tolist()
    if rows <= 0 or columns <= 0:
        raise InvalidArgumentError(f"crop dimensions must be positive, not {rows} x {columns}")
    crops = np.full((boxes.shape[0], rows, columns, depth), extrapolation_value, np.float32)
    for crop, (y1, x1, y2, x2), source in zip(crops, boxes, box_ind.tolist(), strict=True):
        y = _crop_positions(y1, y2, rows, height)
        x = _crop_positions(x1, x2, columns, width)
        inside_y = np.flatnonzero((y >= 0) & (y <= height - 1))
        inside_x = np.flatnonzero((x >= 0) & (x <= width - 1))
        if not inside_y.size or not inside_x.size:
            continue
        y, x = y[inside_y], x[inside_x]
        picture = image[source]
        if method == b"nearest":
            near_y, near_x = np.floor(y + 0.5).astype(int), np.floor(x + 0.5).astype(int)
            value = picture[near_y[:, None], near_x].astype(np.float32)
        else:
            value = _bilinear(picture, y, x)
        crop[inside_y[:, None], inside_x] = value
    return crops


def _bilinear(picture: Array, y: Array, x: Array) -> Array:
    top, bottom = np.floor(y).astype(int)[:, None], np.ceil(y).astype(int)[:, None]
    left, right = np.floor(x).astype(int), np.ceil(x).astype(int)
    down = (y - np.floor(y))[:, None, None]
    across = (x - np.floor(x))[:, None]
    upper = picture[top, left].astype(np.float32)
    upper += (picture[top, right].astype(np.float32) - upper) * across
    lower = picture[bottom, left].astype(np.float32)
    lower += (picture[bottom, right].astype(np.float32) - lower) * across
    result: Array = upper + (lower - upper) * down
    return result


def _suppress(boxes: Array, scores: Array, limit: Any, iou: Any, threshold: Any) -> Array:
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
    boxes = boxes.astype(np.float32, copy=False)
    wanted = max(int(limit), 0)
    ratio = np.float32(iou)
    chosen: list[Array] = []
    count = 0
    before = np.empty((5, 0), np.float32)
    for order in _by_falling_score(scores.astype(np.float32, copy=False), threshold):
        edges = _edges(boxes[order])
        start = 0
        while start < order.size and count < wanted:
            stop = start + min(_BOXES_AT_A_TIME, wanted - count + _SPARE)
            near = edges[:, start:stop]
            overlap = _overlap(np.concatenate([before, near], axis=1), near)
            apart = np.logical_not(overlap >= ratio)
            among = apart[count:]
            free: Array = np.logical_and.reduce(apart[:count], axis=0)
            among |= _EARLIER[: free.size, : free.size]
            # Most boxes are close to none that comes later.
            for place in np.flatnonzero(~among.all(axis=1)).tolist():
                if free[place]:
                    free &= among[place]
            chosen.append(order[start:stop][free])
            before = np.concatenate([before, near[:, free]], axis=1)
            count = before.shape[1]
            start = stop
        if count >= wanted:
            break
    if not chosen:
        return np.empty(0, np.int32)
    return np.concatenate(chosen)[:wanted].astype(np.int32)


def _by_falling_score(scores: Array, threshold: Any) -> Iterator[Array]:
    """Indices by falling score, of one score in their order, some at a time; none at or below a threshold."""
    indices = None if threshold == -np.inf else np.flatnonzero(scores > threshold)
    keys = _sortable(scores if indices is None else scores[indices])
    if indices is None and keys.size > 4 * _BEST:
        # Mostly the best few decide; to find them takes less than to sort all.
        keys = np.partition(keys, _BEST)
        yield np.sort(keys[: _BEST + 1]) & _INDEX
        keys = keys[_BEST + 1 :]
    order = np.sort(keys) & _INDEX
    yield order if indices is None else indices[order]


def _sortable(scores: Array) -> Array:
    """For each score an int64 with its index in the last bits: the best score is the smallest, NaN last."""
    falling = _ZERO - scores  # and no -0
    bits = falling.view(np.int32)
    bits ^= (bits >> 31) & _MAGNITUDE
    unknown = scores != scores
    if unknown.any():
        bits[unknown] = _MAGNITUDE
    keys = bits.astype(np.int64)
    keys <<= _INDEX_BITS
    keys |= np.arange(keys.size)
    return keys


def _edges(corners: Array) -> Array:
    """Boxes (n, 4) with corners in any order as rows: top, left, bottom, right, area; (5, n)."""
    rows = np.ascontiguousarray(corners.T)
    edges = np.empty((5, len(corners)), np.float32)
    np.minimum(rows[:2], rows[2:], out=edges[:2])
    np.maximum(rows[:2], rows[2:], out=edges[2:4])
    np.multiply(edges[2] - edges[0], edges[3] - edges[1], out=edges[4])
    return edges


def _overlap(some: Array, others: Array) -> Array:
    """Intersection over union of each of m boxes with each of n, (m, n); 0 where one has no area."""
    shape = (2, some.shape[1], others.shape[1])
    low, high, none = np.empty(shape, np.float32), np.empty(shape, np.float32), np.zeros(shape, np.float32)
    # NumPy's minimum and maximum are slow where one side stays the same along the innermost axis.
    high[...] = some[2:4, :, None]
    np.minimum(high, others[2:4, None, :], out=high)
    low[...] = some[:2, :, None]
    np.maximum(low, others[:2, None, :], out=low)
    high -= low
    np.maximum(high, none, out=high)
    ratio: Array = high[0]
    union = low[0]
    ratio *= high[1]
    union[...] = some[4][:, None]
    union += others[4]
    union -= ratio
    ratio /= union
    if not (some[4] > 0).all():
        ratio[some[4] <= 0] = 0
    if not (others[4] > 0).all():
        ratio[:, others[4] <= 0] = 0
    return ratio


@kernel("NonMaxSuppression", fresh=True)
def non_max_suppression(boxes: Array, scores: Array, max_output_size: Any, *, iou_threshold: float) -> Any:
    """Indices of boxes by falling score, without those that overlap a chosen one by a ratio or more.

    Of boxes with one score the first comes first.
    """
    return _suppress(boxes, scores, max_output_size, iou_threshold, -np.inf)


@kernel("NonMaxSuppressionV2", fresh=True)
def non_max_suppression_v2(boxes: Array, scores: Array, max_output_size: Any, iou_threshold: Any) -> Any:
    """`NonMaxSuppression` with the ratio as a tensor."""
    return _suppress(boxes, scores, max_output_size, iou_threshold, -np.inf)


@kernel("NonMaxSuppressionV3", fresh=True)
def non_max_suppression_v3(
    boxes: Array, scores: Array, max_output_size: Any, iou_threshold: Any, score_threshold: Any
) -> Any:
    """`NonMaxSuppressionV2` without boxes whose score is not above a threshold."""
    return _suppress(boxes, scores, max_output_size, iou_threshold, score_threshold)


@kernel("NonMaxSuppressionV4", fresh=True)
def non_max_suppression_v4(
    boxes: Array,
    scores: Array,
    max_output_size: Any,
    iou_threshold: Any,
    score_threshold: Any,
    *,
    pad_to_max_output_size: bool,
) -> Any:
    """`NonMaxSuppressionV3`, filled up with zeros on demand, and how many indices are real."""
    kept = _suppress(boxes, scores, max_output_size, iou_threshold, score_threshold)
    count = np.int32(kept.size)
    if pad_to_max_output_size:
        kept = np.concatenate([kept, np.zeros(max(int(max_output_size) - kept.size, 0), np.int32)])
    return kept, count
