"""Boxes drawn into images."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample

_INKS: Final = [[1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]]


def _is_line(box: Any, row: int, column: int, height: int, width: int) -> bool:
    """Whether a pixel is on one of the sides of a box."""
    top, left, bottom, right = (
        int(np.trunc(np.float32(edge) * np.float32(size - 1)))
        for edge, size in zip(box, (height, width) * 2, strict=True)
    )
    inside = top <= row <= bottom and left <= column <= right
    return inside and (row in (top, bottom) or column in (left, right))


def _drawn(images: Any, boxes: Any, colors: Any = None) -> Any:
    out = images.copy()
    _, height, width, depth = images.shape
    inks = np.array(_INKS) if colors is None or not len(colors) else colors
    for picture, own in zip(out, boxes, strict=True):
        for index, box in enumerate(own):
            ink = inks[index % len(inks)][:depth]
            if depth == 1 and inks is not colors:
                ink = [1.0]
            for row in range(height):
                for column in range(width):
                    if _is_line(box, row, column, height, width):
                        picture[row, column] = ink
    return out


_PICTURE: Final = np.linspace(0, 1, 5 * 6 * 3).reshape(1, 5, 6, 3)
_BOXES: Final = [[[0.1, 0.1, 0.9, 0.7], [0.5, 0.3, 2.0, 0.8], [-0.6, -0.6, 0.3, 1.9]]]
_NOWHERE: Final = [[[0.9, 0.1, 0.2, 0.7], [1.5, 0.0, 1.9, 0.5], [np.nan, 0.0, 0.5, 1e30]]]
_INVALID: Final = "InvalidArgumentError"

RECORDS: Final = [
    OpRecord(
        "DrawBoundingBoxes",
        [
            sample(_PICTURE, _BOXES),
            sample(_PICTURE[..., :1], _BOXES),
            sample(_PICTURE, np.zeros((1, 0, 4))),
        ],
        _drawn,
        [
            bad(_INVALID, "depth", np.zeros((1, 2, 2, 2)), _BOXES),
            bad(_INVALID, "[3,4]", _PICTURE, _BOXES[0]),
            bad(_INVALID, "batch", np.zeros((2, 2, 2, 3)), _BOXES),
            bad(_INVALID, "rank", _PICTURE[0], _BOXES),
        ],
        dtypes={"T": ["float32", "float16"]},
    ),
    OpRecord(
        "DrawBoundingBoxesV2",
        [
            sample(_PICTURE, _BOXES, [[0.5, 0.25, 0.75], [0.0, 1.0, 0.0]]),
            sample(_PICTURE[..., :1], _BOXES, [[0.5, 0.25, 0.75]]),
            sample(_PICTURE, _BOXES, np.zeros((0, 4))),
            Sample((_PICTURE, _NOWHERE, [[0.5, 0.25, 0.75]]), {}, [_PICTURE]),
        ],
        _drawn,
        [
            bad(_INVALID, "[1,2]", _PICTURE, _BOXES, [[0.5, 0.25]]),
            bad(_INVALID, "2-D", _PICTURE, _BOXES, [0.5]),
        ],
        dtypes={"T": ["float32", "float16"]},
    ),
]
