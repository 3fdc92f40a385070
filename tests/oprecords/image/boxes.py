"""Boxes in images: crops, drawings, distorted samples."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_PICTURE = np.arange(24.0).reshape(1, 4, 3, 2) * 3 % 17


def _crop(image: Any, boxes: Any, which: Any, size: Any, *, method: bytes, extrapolation_value: float) -> Any:
    height, width = (int(n) for n in size)
    result = np.full((len(boxes), height, width, image.shape[3]), extrapolation_value)
    for n, (y1, x1, y2, x2) in enumerate(boxes):
        source = image[which[n]].astype(np.float64)
        ys, xs = (
            low * (extent - 1) + np.arange(count) * (high - low) * (extent - 1) / (count - 1)
            if count > 1
            else np.array([0.5 * (low + high) * (extent - 1)])
            for low, high, extent, count in (
                (y1, y2, image.shape[1], height),
                (x1, x2, image.shape[2], width),
            )
        )
        for i, y in enumerate(ys):
            for j, x in enumerate(xs):
                if 0 <= y <= image.shape[1] - 1 and 0 <= x <= image.shape[2] - 1:
                    result[n, i, j] = _sampled(source, y, x, method)
    return result


def _sampled(source: Any, y: float, x: float, method: bytes) -> Any:
    if method == b"nearest":
        return source[int(np.floor(y + 0.5)), int(np.floor(x + 0.5))]
    top, left, bottom, right = int(np.floor(y)), int(np.floor(x)), int(np.ceil(y)), int(np.ceil(x))
    upper = source[top, left] + (source[top, right] - source[top, left]) * (x - left)
    lower = source[bottom, left] + (source[bottom, right] - source[bottom, left]) * (x - left)
    return upper + (lower - upper) * (y - top)


RECORDS: Final = [
    OpRecord(
        "CropAndResize",
        [
            sample(_PICTURE, [[0.0, 0.0, 1.0, 1.0], [0.25, 0.5, 1.25, 0.75]], [0, 0], [3, 2]),
            sample(_PICTURE, [[0.0, 0.0, 0.5, 1.0]], [0], [1, 4], method="nearest"),
            sample(_PICTURE, [[-0.5, 0.0, 0.5, 2.0]], [0], [3, 3], extrapolation_value=-7.0),
        ],
        _crop,
        [bad("OutOfRangeError", "", _PICTURE, [[0.0, 0.0, 1.0, 1.0]], [3], [2, 2])],
        {"T": ("float32", "uint8", "float64")},
        loose=10,
        differentiable=True,
    ),
]
