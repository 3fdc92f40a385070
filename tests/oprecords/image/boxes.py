"""Boxes in images: crops of them, and boxes drawn."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample, told

# Boxes in images: crops, drawings, distorted samples.

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


def _crops_of(image: Any, boxes: Any, which: Any, grads: Any, method: bytes) -> float:
    """Return the sum of the crops weighted by `grads`, which the gradient is of."""
    crops = _crop(image, boxes, which, grads.shape[1:3], method=method, extrapolation_value=0.0)
    return float((crops * grads).sum())


def _grad_image(grads: Any, boxes: Any, which: Any, size: Any, *, method: bytes) -> Any:
    """One pixel after another: crops are linear in the image."""
    out = np.zeros(tuple(int(n) for n in size))
    for place in np.ndindex(out.shape):
        unit = np.zeros(out.shape)
        unit[place] = 1
        out[place] = _crops_of(unit, boxes, which, grads, method)
    return out


def _grad_boxes(grads: Any, image: Any, boxes: Any, which: Any) -> Any:
    """By differences: crops are linear in the boxes' corners between pixels."""
    step, out = 1e-6, np.zeros(boxes.shape)
    for place in np.ndindex(out.shape):
        ends = []
        for sign in (1, -1):
            moved = boxes.copy()
            moved[place] += sign * step
            ends.append(_crops_of(image, moved, which, grads, b"bilinear"))
        out[place] = (ends[0] - ends[1]) / (2 * step)
    return out


_SLOPES: Final = np.arange(36.0).reshape(2, 3, 3, 2) % 7 - 2
_TWO: Final = [[0.11, 0.07, 0.83, 0.9], [0.27, 0.53, 1.25, 0.71]]

_OF_BOXES: Final = [
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
    OpRecord(
        "CropAndResizeGradImage",
        [
            sample(_SLOPES, _TWO, [0, 1], [2, 4, 3, 2]),
            sample(_SLOPES[:1, :1], _TWO[:1], [0], [1, 4, 3, 2]),
            sample(_SLOPES, _TWO, [1, 1], [2, 4, 3, 2], method="nearest"),
            sample(_SLOPES[:0], np.zeros((0, 4)), [], [1, 4, 3, 2]),
        ],
        _grad_image,
        [
            bad("OutOfRangeError", "", _SLOPES[:1], _TWO[:1], [3], [1, 2, 2, 2]),
            bad("InvalidArgumentError", "3 channels", _SLOPES[:1], _TWO[:1], [0], [1, 2, 2, 3]),
            bad("InvalidArgumentError", "[3]", _SLOPES[:1], _TWO[:1], [0], [1, 2, 2]),
        ],
        {"T": ("float32",)},  # places are in float32 whatever the images are
        loose=10,
        differentiable=True,
    ),
    OpRecord(
        "CropAndResizeGradBoxes",
        [
            sample(_SLOPES, np.concatenate([_PICTURE, -_PICTURE]), _TWO, [0, 1]),
            sample(_SLOPES[:1, :1], _PICTURE, _TWO[:1], [0]),
            sample(_SLOPES[:0], _PICTURE, np.zeros((0, 4)), []),
        ],
        _grad_boxes,
        [
            bad("OutOfRangeError", "", _SLOPES[:1], _PICTURE, _TWO[:1], [3]),
            bad("InvalidArgumentError", "2 boxes", _SLOPES[:1], _PICTURE, _TWO, [0, 0]),
        ],
        {"T": ("float32", "uint8", "float64")},
        loose=100,
    ),
]


# Boxes drawn into images.

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


_PICTURE_DRAWING: Final = np.linspace(0, 1, 5 * 6 * 3).reshape(1, 5, 6, 3)
_BOXES: Final = [[[0.1, 0.1, 0.9, 0.7], [0.5, 0.3, 2.0, 0.8], [-0.6, -0.6, 0.3, 1.9]]]
_NOWHERE: Final = [[[0.9, 0.1, 0.2, 0.7], [1.5, 0.0, 1.9, 0.5], [np.nan, 0.0, 0.5, 1e30]]]
_INVALID: Final = "InvalidArgumentError"

_OF_DRAWING: Final = [
    OpRecord(
        "DrawBoundingBoxes",
        [
            sample(_PICTURE_DRAWING, _BOXES),
            sample(_PICTURE_DRAWING[..., :1], _BOXES),
            sample(_PICTURE_DRAWING, np.zeros((1, 0, 4))),
        ],
        _drawn,
        [
            bad(_INVALID, "depth", np.zeros((1, 2, 2, 2)), _BOXES),
            bad(_INVALID, "[3,4]", _PICTURE_DRAWING, _BOXES[0]),
            bad(_INVALID, "batch", np.zeros((2, 2, 2, 3)), _BOXES),
            bad(_INVALID, "rank", _PICTURE_DRAWING[0], _BOXES),
        ],
        dtypes={"T": ["float32", "float16"]},
    ),
    OpRecord(
        "DrawBoundingBoxesV2",
        [
            sample(_PICTURE_DRAWING, _BOXES, [[0.5, 0.25, 0.75], [0.0, 1.0, 0.0]]),
            sample(_PICTURE_DRAWING[..., :1], _BOXES, [[0.5, 0.25, 0.75]]),
            sample(_PICTURE_DRAWING, _BOXES, np.zeros((0, 4))),
            Sample((_PICTURE_DRAWING, _NOWHERE, [[0.5, 0.25, 0.75]]), {}, [_PICTURE_DRAWING]),
        ],
        _drawn,
        [
            bad(_INVALID, "[1,2]", _PICTURE_DRAWING, _BOXES, [[0.5, 0.25]]),
            bad(_INVALID, "2-D", _PICTURE_DRAWING, _BOXES, [0.5]),
        ],
        dtypes={"T": ["float32", "float16"]},
    ),
]


# Recorded from TensorFlow 1.15.5's contrib.image.
_DISTANCES: Final = [[0.5, 0.25, 1.0], [0.125, 0.75, 0.375], [2.0, 0.0625, 0.625]]

_OF_MATCHING: Final = [
    OpRecord(
        "BipartiteMatch",
        [
            told([_DISTANCES, -1.0], [[2, 0, 1], [1, 2, 0]], {}),
            told([_DISTANCES, 2.0], [[1, 0, -1], [1, 0, -1]], {}),
            told([_DISTANCES, -1.0], [[-1, -1, 1], [-1, 2, -1]], {"top_k": 1}),
            told([np.zeros((0, 2)), -1.0], [np.zeros(0, int), [-1, -1]], {}),
        ],
        None,
        [
            bad(_INVALID, "at least 4 rows in distance_mat, but only got 3", _DISTANCES, 4.0),
            bad(_INVALID, "", [0.5, 0.25], -1.0),
            bad(_INVALID, "1 element", _DISTANCES, [1.0, 2.0]),
        ],
    ),
]


RECORDS: Final = [*_OF_BOXES, *_OF_DRAWING, *_OF_MATCHING]
