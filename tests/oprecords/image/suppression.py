"""Suppression of boxes that overlap a better one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

# Suppression of boxes that overlap a better one.


def _overlap(a: Any, b: Any) -> float:
    (ay1, ax1), (ay2, ax2) = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    (by1, bx1), (by2, bx2) = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    both = max(min(ay2, by2) - max(ay1, by1), 0) * max(min(ax2, bx2) - max(ax1, bx1), 0)
    areas = (ay2 - ay1) * (ax2 - ax1) + (by2 - by1) * (bx2 - bx1)
    return float(both / (areas - both)) if both else 0.0


def _suppressed(boxes: Any, scores: Any, most: Any, overlap: Any = 0.5, least: Any = -np.inf) -> Any:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if (
            len(kept) < most
            and scores[i] > least
            and all(_overlap(boxes[i], boxes[k]) <= overlap for k in kept)
        ):
            kept.append(int(i))
    return np.array(kept, int)


def _suppressed_padded(
    boxes: Any, scores: Any, most: Any, overlap: Any, least: Any, *, pad_to_max_output_size: bool
) -> Any:
    kept = _suppressed(boxes, scores, most, overlap, least)
    padding = int(most) - len(kept) if pad_to_max_output_size else 0
    return np.pad(kept, (0, padding)), len(kept)


_BOXES = np.array(
    [[0, 0, 1, 1], [0, 0.125, 1, 1.125], [0, -0.125, 1, 0.75], [0, 10, 1, 11], [1, 11.125, 0, 10.125]]
)
_SCORES = np.array([0.875, 0.75, 0.5, 0.9375, 0.25])
_NMS = [sample(_BOXES, _SCORES, 3, 0.5), sample(_BOXES, _SCORES, 10, 0.9375)]
_T1 = {"T": ("float32",), "T_threshold": ("float32",)}

_OF_SUPPRESSION: Final = [
    OpRecord(
        "NonMaxSuppression",
        [sample(_BOXES, _SCORES, 3, iou_threshold=0.5)],
        lambda b, s, n: _suppressed(b, s, n),
        [bad("InvalidArgumentError", "", _BOXES, _SCORES[:2], 3)],
        partial=True,
    ),
    OpRecord(
        "NonMaxSuppressionV2",
        _NMS,
        _suppressed,
        [bad("InvalidArgumentError", "1.5", _BOXES, _SCORES, 3, 1.5)],
        _T1,
        partial=True,
    ),
    OpRecord(
        "NonMaxSuppressionV3",
        [sample(_BOXES, _SCORES, 3, 0.5, 0.3), sample(_BOXES, _SCORES, 0, 0.5, 0.3)],
        _suppressed,
        [bad("InvalidArgumentError", "-0.5", _BOXES, _SCORES, 3, -0.5, 0.0)],
        _T1,
        partial=True,
    ),
    OpRecord(
        "NonMaxSuppressionV4",
        [sample(_BOXES, _SCORES, 4, 0.5, 0.3, pad_to_max_output_size=p) for p in (True, False)],
        _suppressed_padded,
        dtypes=_T1,
        partial=True,
    ),
]


# Suppression of boxes that also tells scores, by given overlaps, and of several classes at once.


def _scored(
    boxes: Any, scores: Any, most: Any, overlap: Any, least: Any, sigma: Any, *, pad_to_max_output_size: bool
) -> Any:
    """All scores anew after each choice."""
    left = {i: float(s) for i, s in enumerate(scores) if s > least}
    kept: list[tuple[int, float]] = []
    while left and len(kept) < most:
        best = min(left, key=lambda i: (-left[i], i))
        kept.append((best, left.pop(best)))
        for i in list(left):
            shared = _overlap(boxes[i], boxes[best])
            left[i] *= np.exp(-0.5 * shared * shared / sigma) if sigma else 1.0
            if shared >= overlap or left[i] <= least:
                del left[i]
    count = len(kept)
    kept += [(0, 0.0)] * (int(most) - count if pad_to_max_output_size else 0)
    return np.array([i for i, _ in kept], int), np.array([s for _, s in kept], float), count


def _by_overlaps(overlaps: Any, scores: Any, most: Any, overlap: Any, least: Any) -> Any:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if len(kept) < most and scores[i] > least and all(overlaps[i, k] < overlap for k in kept):
            kept.append(int(i))
    return np.array(kept, int)


def _combined(
    boxes: Any,
    scores: Any,
    per_class: Any,
    total: Any,
    overlap: Any,
    least: Any,
    *,
    pad_per_class: bool,
    clip_boxes: bool,
) -> Any:
    size = min(int(total), int(per_class) * scores.shape[2]) if pad_per_class else int(total)
    out, marks, kinds, counts = [], [], [], []
    for image, of_image in enumerate(scores):
        found = []
        for kind in range(scores.shape[2]):
            own = boxes[image, :, min(kind, boxes.shape[2] - 1)]
            kept = _suppressed(own, of_image[:, kind], per_class, overlap, least)
            found += [(of_image[i, kind], kind, own[i]) for i in kept]
        found.sort(key=lambda each: -each[0])
        found = found[:size]
        counts.append(len(found))
        found += [(0.0, 0, np.zeros(4))] * (size - len(found))
        out.append([np.clip(b, 0, 1) if clip_boxes else b for _, _, b in found])
        marks.append([s for s, _, _ in found])
        kinds.append([k for _, k, _ in found])
    return np.array(out), np.array(marks), np.array(kinds), np.array(counts)


_SHARED: Final = np.array([[_overlap(a, b) for b in _BOXES] for a in _BOXES])
_CLASSES: Final = np.stack([_SCORES, _SCORES[::-1] - 0.0625], axis=1)
_TWO: Final = np.stack([_CLASSES, 0.8 - _CLASSES / 2])
_SHIFTED: Final = np.stack([_BOXES, _BOXES[:, ::-1]])[:, :, None]
_PER_CLASS: Final = np.concatenate([_SHIFTED, _SHIFTED * 0.5 + 0.1], axis=2)

_OF_SCORED_SUPPRESSION: Final = [
    OpRecord(
        "NonMaxSuppressionV5",
        [
            sample(_BOXES, _SCORES, 4, 0.5, 0.3, 0.0, pad_to_max_output_size=True),
            sample(_BOXES, _SCORES, 4, 0.5, 0.3, 0.0),
            sample(_BOXES, _SCORES, 9, 1.0, 0.1, 0.5),
            sample(_BOXES, _SCORES, 5, 0.9, 0.4, 0.25, pad_to_max_output_size=True),
            sample(_BOXES[:0], _SCORES[:0], 2, 1.0, 0.1, 0.5),
        ],
        _scored,
        [
            bad("InvalidArgumentError", "[0, 1]", _BOXES, _SCORES, 1, 1.5, 0.3, 0.0),
            bad("InvalidArgumentError", "[3]", _BOXES, _SCORES[:3], 1, 0.5, 0.3, 0.0),
            bad("InvalidArgumentError", "soft_nms_sigma", _BOXES, _SCORES, 1, 0.5, 0.3, [0.0]),
        ],
        {"T": ("float32",)},
        partial=True,
    ),
    OpRecord(
        "NonMaxSuppressionWithOverlaps",
        [
            sample(_SHARED, _SCORES, 3, 0.5, 0.3),
            sample(_SHARED, _SCORES, 9, 0.9, -1.0),
            sample(_SHARED, _SCORES, 0, 0.5, 0.3),
            sample(_SHARED[:0, :0], _SCORES[:0], 3, 0.5, 0.3),
        ],
        _by_overlaps,
        [
            bad("InvalidArgumentError", "[4,5]", _SHARED[:4], _SCORES, 3, 0.5, 0.3),
            bad("InvalidArgumentError", "[4]", _SHARED, _SCORES[:4], 3, 0.5, 0.3),
        ],
        partial=True,
    ),
    OpRecord(
        "CombinedNonMaxSuppression",
        [
            sample(_SHIFTED, _TWO, 3, 7, 0.5, 0.3),
            sample(_SHIFTED, _TWO, 1, 9, 0.5, 0.3, pad_per_class=True, clip_boxes=False),
            sample(_PER_CLASS, _TWO, 2, 3, 0.25, -1.0, clip_boxes=False),
            sample(_SHIFTED[:, :0], _TWO[:, :0], 2, 3, 0.25, 0.0),
        ],
        _combined,
        [
            bad("InvalidArgumentError", "max_total_size must be at least 1", _SHIFTED, _TWO, 3, 0, 0.5, 0.3),
            bad("InvalidArgumentError", "[0, 1]", _SHIFTED, _TWO, 3, 7, 2.0, 0.3),
            bad("InvalidArgumentError", "[2,4,2]", _SHIFTED, _TWO[:, :4], 3, 7, 0.5, 0.3),
            bad(
                "InvalidArgumentError",
                "2, got",
                np.concatenate([_PER_CLASS, _SHIFTED], 2),
                _TWO,
                3,
                7,
                0.5,
                0.3,
            ),
        ],
    ),
]


RECORDS: Final = [*_OF_SUPPRESSION, *_OF_SCORED_SUPPRESSION]
