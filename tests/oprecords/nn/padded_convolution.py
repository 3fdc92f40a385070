"""Convolutions of images that are resized, and made larger by their mirror image, on the way."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample
from tests.oprecords.windows import windows

_MIRRORS: Final[dict[bytes, Any]] = {b"REFLECT": "reflect", b"SYMMETRIC": "symmetric"}


def _pad_conv(x: Any, paddings: Any, filters: Any, *, mode: bytes, strides: Any, padding: bytes) -> Any:
    x = np.pad(x, paddings, _MIRRORS[mode])
    outs, pairs = windows(x.shape[1:3], filters.shape[:2], strides[1:3], (1, 1), padding)
    result = np.zeros((x.shape[0], *outs, filters.shape[3]))
    for (i, j), (top, left), place in pairs:
        result[:, i, j] += x[:, top, left] @ filters[place]
    return result


def _resized(x: Any, axis: int, wanted: int, corners: bool) -> Any:
    size = x.shape[axis]
    scale = (size - 1) / (wanted - 1) if corners and wanted > 1 else size / wanted
    places = np.arange(wanted) * np.float64(np.float32(scale))
    low = np.minimum(places.astype(int), size - 1)
    high = np.minimum(low + 1, size - 1)
    weight = (places - low).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    return x.take(low, axis) * (1 - weight) + x.take(high, axis) * weight


def _resize_pad_conv(
    x: Any,
    size: Any,
    paddings: Any,
    filters: Any,
    *,
    resize_align_corners: bool,
    mode: bytes,
    strides: Any,
    padding: bytes,
) -> Any:
    for axis, wanted in ((1, size[0]), (2, size[1])):
        x = _resized(x, axis, int(wanted), resize_align_corners)
    return _pad_conv(x, paddings, filters, mode=mode, strides=strides, padding=padding)


_IMAGES: Final = np.arange(2 * 4 * 5 * 2).reshape(2, 4, 5, 2) % 7 - 3.0
_FILTERS: Final = np.arange(2 * 3 * 2 * 3).reshape(2, 3, 2, 3) % 5 - 2.0
_PADS: Final = [[0, 0], [1, 2], [3, 0], [0, 0]]
_ATTRS: Final[dict[str, Any]] = {"mode": "REFLECT", "strides": [1, 1, 1, 1], "padding": "VALID"}
_OTHER: Final[dict[str, Any]] = {"mode": "SYMMETRIC", "strides": [1, 2, 2, 1], "padding": "SAME"}

RECORDS: Final = [
    OpRecord(
        "FusedPadConv2D",
        [
            sample(_IMAGES, _PADS, _FILTERS, **_ATTRS),
            sample(_IMAGES, _PADS, _FILTERS, **_OTHER),
            sample(_IMAGES, np.zeros((4, 2)), _FILTERS, **_OTHER),
        ],
        _pad_conv,
        [
            bad(
                "InvalidArgumentError",
                "less than",
                _IMAGES,
                [[0, 0], [4, 0], [0, 0], [0, 0]],
                _FILTERS,
                **_ATTRS,
            ),
            bad(
                "InvalidArgumentError",
                "spatial",
                _IMAGES,
                [[1, 0], [0, 0], [0, 0], [0, 0]],
                _FILTERS,
                **_OTHER,
            ),
            bad("InvalidArgumentError", "2", _IMAGES, [[1, 0], [0, 0]], _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "empty", _IMAGES[:0], _PADS, _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "2", _IMAGES, _PADS, _FILTERS[:, :, :1], **_OTHER),
            bad("InvalidArgumentError", "", _IMAGES[0], _PADS, _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "-1", _IMAGES, [[0, 0], [-1, 0], [0, 0], [0, 0]], _FILTERS, **_ATTRS),
        ],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "FusedResizeAndPadConv2D",
        [
            sample(_IMAGES, [3, 4], _PADS, _FILTERS, **_ATTRS),
            sample(_IMAGES, [7, 5], _PADS, _FILTERS, **_OTHER, resize_align_corners=True),
            sample(_IMAGES, [4, 5], _PADS, _FILTERS, **_OTHER),
        ],
        _resize_pad_conv,
        [
            bad("InvalidArgumentError", "positive", _IMAGES, [3, 0], _PADS, _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "two elements", _IMAGES, [3], _PADS, _FILTERS, **_OTHER),
            bad("InvalidArgumentError", "", _IMAGES, [1, 1], _PADS, _FILTERS, **_ATTRS),
        ],
        loose=60,
        differentiable=True,
    ),
]
