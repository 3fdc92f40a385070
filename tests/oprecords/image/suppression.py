"""Suppression of boxes that overlap a better one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


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

RECORDS: Final = [
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
