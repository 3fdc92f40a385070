"""Windows of images, around a place of each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample

_PICTURE: Final = np.arange(80.0).reshape(1, 8, 10, 1)
_ZERO: Final = {"noise": "zero", "uniform_noise": False}
_INVALID: Final = "InvalidArgumentError"


def _window(top: int, left: int, height: int, width: int) -> list[Any]:
    """A window of `_PICTURE`, 0 outside of it."""
    wide = np.zeros((40, 40))
    wide[16:24, 15:25] = _PICTURE[0, :, :, 0]
    part = wide[16 + top : 16 + top + height, 15 + left : 15 + left + width]
    return [part[None, :, :, None]]


def _placed(offset: list[float], size: list[int], at: tuple[int, int], **attrs: Any) -> Sample:
    return Sample((_PICTURE, size, [offset]), {**_ZERO, **attrs}, _window(*at, *size))


_BAD: Final = [
    bad(_INVALID, "must not be negative", _PICTURE, [2, -1], [[0.0, 0.0]]),
    bad(_INVALID, "[2,2]", _PICTURE, [2, 2], np.zeros((2, 2))),
    bad(_INVALID, "what", _PICTURE, [2, 2], [[0.0, 0.0]], noise="what", uniform_noise=False),
    bad(_INVALID, "zero", _PICTURE, [2, 2], [[0.0, 0.0]], noise="zero", uniform_noise=True),
]
_PIXELS: Final = {"centered": False, "normalized": False}

RECORDS: Final = [
    OpRecord(
        "ExtractGlimpse",
        [
            _placed([0.0, 0.0], [3, 4], (2, 3)),
            _placed([-1.0, 0.5], [3, 4], (-1, 5)),
            _placed([2.0, 3.0], [3, 4], (3, 4), normalized=False),
            _placed([2.0, 3.0], [3, 4], (0, 1), **_PIXELS),
            _placed([0.5, 0.25], [2, 2], (3, 1), centered=False),
            _placed([0.0, 0.0], [0, 4], (2, 3)),
        ],
        bad=_BAD,
    ),
    OpRecord(
        "ExtractGlimpseV2",
        [
            _placed([0.0, 0.0], [3, 4], (2, 3)),
            _placed([2.0, 3.0], [3, 4], (6, 8), normalized=False),
            _placed([2.0, 3.0], [3, 4], (2, 3), **_PIXELS),
            _placed([0.5, 0.25], [2, 2], (4, 2), centered=False),
            sample(np.ones((2, 8, 10, 1)), [3, 4], [[-1.0, 0.0], [0.0, 1.0]]),
            sample(
                np.ones((2, 8, 10, 1)),
                [3, 4],
                [[-1.0, 0.0], [0.0, 1.0]],
                noise="gaussian",
                uniform_noise=False,
            ),
        ],
        lambda images, size, offsets: np.ones((2, 3, 4, 1)),
        bad=_BAD,
    ),
]
