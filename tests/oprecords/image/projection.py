"""Projections of images onto others."""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_PICTURES: Final = np.arange(48.0).reshape(2, 4, 3, 2) * 5 % 31
#: Nothing; shifted by quarters of a pixel; turned and sheared; in perspective.
_SAME: Final = [[1.0, 0, 0, 0, 1.0, 0, 0, 0]]
_SHIFTED: Final = [[1.0, 0, 0.25, 0, 1.0, -1.5, 0, 0], [1.0, 0, -4.25, 0, 1.0, 7.5, 0, 0]]
_TURNED: Final = [[0.5, -0.75, 1.5, 1.25, 0.5, -2.0, 0, 0]]
_FAR: Final = [[1.0, 0.5, -1.0, 0.25, 1.0, 0.5, -0.5, 0.125], [2.0, 0, 1.0, 0, 2.0, 0, 0.25, 0.25]]


def _inside(place: float, size: int, mode: bytes) -> float:
    if mode == b"CONSTANT":
        return place
    if mode == b"REFLECT":
        while not -0.5 <= place <= size - 0.5:
            place = -1 - place if place < 0 else 2 * size - 1 - place
    elif mode == b"WRAP" and size > 1:
        if place < 0:
            place += size * (int(-place / (size - 1)) + 1)
        elif place > size - 1:
            place -= size * int(place / (size - 1))
    return min(max(place, 0.0), size - 1.0)


def _read(image: Any, row: int, column: int, fill: Any) -> Any:
    if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
        return image[row, column].astype(np.float64)
    return np.full(image.shape[2], fill, np.float64)


def _looked_up(image: Any, y: float, x: float, fill: Any, bilinear: bool) -> Any:
    if not bilinear:
        row, column = (int(math.copysign(math.floor(abs(v) + 0.5), v)) for v in (y, x))
        return _read(image, row, column, fill)
    top, left = math.floor(y), math.floor(x)
    total = np.zeros(image.shape[2])
    for row, column in itertools.product((top, top + 1), (left, left + 1)):
        total += (1 - abs(y - row)) * (1 - abs(x - column)) * _read(image, row, column, fill)
    return total


def _projected(
    images: Any, transforms: Any, size: Any, fill: Any = 0.0, *, interpolation: bytes, fill_mode: bytes
) -> Any:
    """One place after another."""
    out = np.zeros((len(images), *(int(n) for n in size), images.shape[3]))
    for n, y, x in np.ndindex(out.shape[:3]):
        a0, a1, a2, b0, b1, b2, c0, c1 = transforms[n if len(transforms) > 1 else 0]
        k = c0 * x + c1 * y + 1
        if k == 0:
            out[n, y, x] = fill
            continue
        column = _inside((a0 * x + a1 * y + a2) / k, images.shape[2], fill_mode)
        row = _inside((b0 * x + b1 * y + b2) / k, images.shape[1], fill_mode)
        out[n, y, x] = _looked_up(images[n], row, column, fill, interpolation == b"BILINEAR")
    return np.trunc(out) if images.dtype.kind in "iu" else out


_WAYS: Final = [
    {"interpolation": how, "fill_mode": mode}
    for how in ("NEAREST", "BILINEAR")
    for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST")
]
_ALL: Final = [
    (transform, size, way)
    for way in _WAYS
    for transform, size in ((_SAME, [4, 3]), (_SHIFTED, [5, 4]), (_TURNED, [3, 5]))
]
#: With quotients, which are float32 whatever the images are.
_FAR_ALL: Final = [(_FAR, [4, 5], {**way, "dtype": "float32"}) for way in _WAYS]
_TYPES: Final = ("float32", "uint8", "int32", "float64", "float16")


def _bad(*more: Any) -> list[Any]:
    good = {"interpolation": "NEAREST"}
    return [
        bad("InvalidArgumentError", "CUBIC", _PICTURES, _SAME, [2, 2], *more, interpolation="CUBIC"),
        bad("InvalidArgumentError", "EDGE", _PICTURES, _SAME, [2, 2], *more, fill_mode="EDGE", **good),
        bad("InvalidArgumentError", "rank 4", _PICTURES[0], _SAME, [2, 2], *more, **good),
        bad("InvalidArgumentError", "[3,8]", _PICTURES, _SAME * 3, [2, 2], *more, **good),
        bad("InvalidArgumentError", "positive", _PICTURES, _SAME, [2, 0], *more, **good),
        bad("InvalidArgumentError", "height and width", _PICTURES, _SAME, [2], *more, **good),
    ]


RECORDS: Final = [
    OpRecord(
        "ImageProjectiveTransformV2",
        [sample(_PICTURES, transform, size, **way) for transform, size, way in _ALL + _FAR_ALL],
        _projected,
        _bad(),
        {"dtype": _TYPES},
        loose=10,
    ),
    OpRecord(
        "ImageProjectiveTransformV3",
        [sample(_PICTURES, transform, size, 7.0, **way) for transform, size, way in _ALL + _FAR_ALL],
        _projected,
        _bad(0.0),
        {"dtype": _TYPES},
        loose=10,
    ),
]
