"""Colours of images: hue, saturation, contrast."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told

_COLOURS: Final = [
    [[0.1, 0.7, 0.3], [0.9, 0.2, 0.2], [0.0, 0.0, 0.0]],
    [[0.5, 0.5, 0.5], [0.2, 0.1, 0.8], [0.3, 0.9, 0.9]],
]
_EMPTY: Final = np.zeros((0, 2, 3))
_INVALID: Final = "InvalidArgumentError"
_BOTH: Final = {"T": ["float32", "float16"]}


def _pixels(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def reference(images: Any) -> Any:
        pixels = [function(*pixel) for pixel in images.reshape(-1, 3)]
        return np.array(pixels).reshape(images.shape)

    return reference


def _turned(images: Any, delta: Any) -> Any:
    def turned(*pixel: float) -> Any:
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        return colorsys.hsv_to_rgb((hue + delta) % 1.0, saturation, value)

    return _pixels(turned)(images)


def _saturated(images: Any, scale: Any) -> Any:
    def saturated(*pixel: float) -> Any:
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        return colorsys.hsv_to_rgb(hue, min(max(saturation * scale, 0.0), 1.0), value)

    return _pixels(saturated)(images)


def _spread(images: Any, factor: Any) -> Any:
    if not images.size:
        return images
    mean = images.mean(axis=(-3, -2), keepdims=True)
    return (images - mean) * factor + mean


def _bounded(images: Any, factor: Any, low: Any, high: Any) -> Any:
    return np.clip(_spread(images.astype(np.float64), factor), low, high)


RECORDS: Final = [
    OpRecord(
        "RGBToHSV",
        [
            sample(_COLOURS),
            sample([0.3, 0.2, 0.25]),
            sample(_EMPTY),
            told([[np.nan] * 3], [[0.0, 0.0, -np.inf]], {}),
        ],
        _pixels(colorsys.rgb_to_hsv),
        [bad(_INVALID, "4", [[0.0] * 4]), bad(_INVALID, "", 1.0)],
        loose=3,
        differentiable=True,
    ),
    OpRecord(
        "HSVToRGB",
        [sample(_COLOURS), sample([0.99, 0.2, 0.25]), sample(_EMPTY)],
        _pixels(colorsys.hsv_to_rgb),
        [bad(_INVALID, "4", [[0.0] * 4]), bad(_INVALID, "", 1.0)],
        loose=3,
    ),
    *(
        OpRecord(
            op,
            [
                # Recorded from TensorFlow 1.15.5's contrib.image.
                told(
                    [[[[0.1, 0.7, 0.3], [0.9, 0.2, 0.2]]], 0.3, 1.2, 0.9],
                    [
                        [
                            [
                                [0.07192958146333694, 0.6850000023841858, 0.03419330716133118],
                                [0.9123286008834839, 0.07915049046278, 0.43089789152145386],
                            ]
                        ]
                    ],
                    {},
                ),
                told([_EMPTY, 0.3, 1.0, 1.0], [_EMPTY], {}),
            ],
            None,
            [
                bad(_INVALID, "3 channels", np.zeros((1, 1, 4)), 0.1, 1.0, 1.0),
                bad(_INVALID, "", [[0.0] * 3], 0.1, 1.0, 1.0),
                bad(_INVALID, "delta_h must be scalar", _COLOURS, [0.1], 1.0, 1.0),
            ],
            dtypes={"T": ["float32"]},
        )
        for op in ("AdjustHsvInYiq", "Addons>AdjustHsvInYiq")
    ),
    OpRecord(
        "AdjustHue",
        [sample([_COLOURS], 0.25), sample(_COLOURS, -0.4), sample(_COLOURS, 0.0), sample(_EMPTY, 0.1)],
        _turned,
        [
            bad(_INVALID, "4", np.zeros((1, 1, 4)), 0.1),
            bad(_INVALID, "", [[0.0] * 3], 0.1),
            bad(_INVALID, "scalar", _COLOURS, [0.1]),
        ],
        dtypes=_BOTH,
        loose=3,
    ),
    OpRecord(
        "AdjustSaturation",
        [sample([_COLOURS], 0.5), sample(_COLOURS, 3.0), sample(_COLOURS, -1.0), sample(_EMPTY, 0.1)],
        _saturated,
        [
            bad(_INVALID, "4", np.zeros((1, 1, 4)), 0.1),
            bad(_INVALID, "", [[0.0] * 3], 0.1),
            bad(_INVALID, "scalar", _COLOURS, [0.1]),
        ],
        dtypes=_BOTH,
        loose=3,
    ),
    OpRecord(
        "AdjustContrastv2",
        [sample([_COLOURS], 0.5), sample(np.arange(24.0).reshape(2, 3, 4), 2.0), sample(_EMPTY, 0.1)],
        _spread,
        [bad(_INVALID, "", [[0.0] * 3], 0.1), bad(_INVALID, "scalar", _COLOURS, [0.1])],
        dtypes=_BOTH,
    ),
    OpRecord(
        "AdjustContrast",
        [sample([_COLOURS], 0.5, 0.0, 1.0), sample(np.arange(24.0).reshape(2, 3, 4), 2.0, 3.0, 20.0)],
        _bounded,
        [
            bad(_INVALID, "", [[0.0] * 3], 0.1, 0.0, 1.0),
            bad(_INVALID, "max_value", _COLOURS, 0.1, 0.0, [1.0]),
        ],
    ),
]
