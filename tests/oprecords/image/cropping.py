"""Parts of images, drawn at random or around given places."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample

# Parts of an image, drawn at random.

_PICTURE: Final = np.arange(120.0).reshape(8, 5, 3)
_BOXES: Final = [[[0.1, 0.2, 0.6, 0.9], [0.5, 0.5, 0.75, 1.0]]]


def _is_part(outputs: Any, inputs: Any) -> None:
    (part,), (image, size) = outputs, inputs
    height, width = size.tolist()
    assert part.shape == (height, width, image.shape[2])
    places = [
        (y, x)
        for y in range(image.shape[0] - height + 1)
        for x in range(image.shape[1] - width + 1)
        if (image[y : y + height, x : x + width] == part).all()
    ]
    assert len(places) == 1 or not part.size


def _shows_enough(
    outputs: Any,
    inputs: Any,
    *,
    aspect_ratio_range: Any,
    area_range: Any,
    min_object_covered: float | None = None,
) -> None:
    begin, size, box = (np.asarray(o, np.float64) for o in outputs)
    height, width, _ = inputs[0].tolist()
    (top, left, _), (rows, columns, rest) = begin, size
    assert rest == -1
    assert top >= 0
    assert top + rows <= height
    assert left + columns <= width
    ends = [top / height, left / width, (top + rows) / height, (left + columns) / width]
    np.testing.assert_allclose(box.reshape(-1), ends, 1e-6)
    if (rows, columns) == (height, width):
        return
    # A row more or less is allowed for rounding.
    low, high = aspect_ratio_range
    assert low * rows - 1 <= columns <= high * rows + 1
    assert area_range[0] * height * width <= rows * columns <= area_range[1] * height * width + 1e-3
    least = float(inputs[2]) if len(inputs) > 2 else (min_object_covered or 0.0)
    shares = [0.0]
    for y1, x1, y2, x2 in inputs[1].reshape(-1, 4) if inputs[1].size else [(0, 0, 1, 1)]:
        y1, y2, x1, x2 = int(y1 * height), int(y2 * height), int(x1 * width), int(x2 * width)
        down = max(min(top + rows, y2) - max(top, y1), 0)
        across = max(min(left + columns, x2) - max(left, x1), 0)
        shares.append(down * across / max((y2 - y1) * (x2 - x1), 1))
    assert max(shares) >= least - 1e-6


def _shows_enough_too(outputs: Any, inputs: Any, *, aspect_ratio_range: Any, area_range: Any) -> None:
    _shows_enough(outputs, inputs, aspect_ratio_range=aspect_ratio_range, area_range=area_range)


def _samples(*more: Any, **attrs: Any) -> list[Any]:
    return [
        sample([90, 100, 3], _BOXES, *more, **attrs),
        sample([33, 20, 3], _BOXES, *more, **attrs, area_range=[0.5, 0.75], aspect_ratio_range=[1.5, 2.0]),
        sample([40, 30, 1], np.zeros((1, 0, 4)), *more, **attrs, use_image_if_no_bounding_boxes=True),
        sample([40, 30, 1], _BOXES, *more, **attrs, aspect_ratio_range=[90.0, 99.0], max_attempts=3),
    ]


def _bad(*more: Any) -> list[Any]:
    return [
        bad("InvalidArgumentError", "3 elements", [9, 9], _BOXES, *more),
        bad("InvalidArgumentError", "[1,4]", [9, 9, 3], [[0.0, 0.0, 1.0, 1.0]], *more),
        bad("InvalidArgumentError", "1.5", [9, 9, 3], [[[0.0, 0.0, 1.5, 1.0]]], *more),
        bad("InvalidArgumentError", "No bounding boxes", [9, 9, 3], np.zeros((1, 0, 4)), *more),
        bad("InvalidArgumentError", "area_range", [9, 9, 3], _BOXES, *more, area_range=[0.5, 1.5]),
        bad("InvalidArgumentError", "aspect_ratio_range", [9, 9, 3], _BOXES, *more, aspect_ratio_range=[1.0]),
        bad("InvalidArgumentError", "max_attempts", [9, 9, 3], _BOXES, *more, max_attempts=0),
    ]


_SEEDS: Final = {"seed": 3, "seed2": 11}
_T: Final = {"T": ("int32", "int64", "int8")}

_OF_CROPPING: Final = [
    OpRecord(
        "RandomCrop",
        [
            sample(_PICTURE, [3, 2], **_SEEDS),
            sample(_PICTURE, [8, 5]),
            sample(_PICTURE, [8, 1], **_SEEDS),
            sample(_PICTURE, [0, 1], **_SEEDS),
        ],
        bad=[
            bad("FailedPreconditionError", "8 rows of 5", _PICTURE, [9, 2]),
            bad("InvalidArgumentError", "3-dimensional", _PICTURE[0], [3, 2]),
            bad("InvalidArgumentError", "[1]", _PICTURE, [3]),
        ],
        check=_is_part,
        random=True,
    ),
    OpRecord(
        "SampleDistortedBoundingBox",
        [*_samples(**_SEEDS), *_samples(**_SEEDS, min_object_covered=0.75)],
        bad=[*_bad(), bad("InvalidArgumentError", "-1", [9, 9, 3], _BOXES, min_object_covered=-1.0)],
        dtypes=_T,
        check=_shows_enough,
        random=True,
    ),
    OpRecord(
        "SampleDistortedBoundingBoxV2",
        [*_samples(0.0, **_SEEDS), *_samples(0.75, **_SEEDS)],
        bad=[*_bad(0.5), bad("InvalidArgumentError", "-1", [9, 9, 3], _BOXES, -1.0)],
        dtypes=_T,
        check=_shows_enough_too,
        random=True,
    ),
    OpRecord(
        "StatelessSampleDistortedBoundingBox",
        [*_samples(0.0, [4, 5]), *_samples(0.75, [-2, 9])],
        bad=[*_bad(0.5, [1, 2]), bad("InvalidArgumentError", "seed", [9, 9, 3], _BOXES, 0.5, [1])],
        dtypes=_T,
        check=_shows_enough_too,
    ),
]


# Windows of images, around a place of each.

_PICTURE_GLIMPSES: Final = np.arange(80.0).reshape(1, 8, 10, 1)
_ZERO: Final = {"noise": "zero", "uniform_noise": False}
_INVALID: Final = "InvalidArgumentError"


def _window(top: int, left: int, height: int, width: int) -> list[Any]:
    """A window of `_PICTURE_GLIMPSES`, 0 outside of it."""
    wide = np.zeros((40, 40))
    wide[16:24, 15:25] = _PICTURE_GLIMPSES[0, :, :, 0]
    part = wide[16 + top : 16 + top + height, 15 + left : 15 + left + width]
    return [part[None, :, :, None]]


def _placed(offset: list[float], size: list[int], at: tuple[int, int], **attrs: Any) -> Sample:
    return Sample((_PICTURE_GLIMPSES, size, [offset]), {**_ZERO, **attrs}, _window(*at, *size))


_BAD: Final = [
    bad(_INVALID, "must not be negative", _PICTURE_GLIMPSES, [2, -1], [[0.0, 0.0]]),
    bad(_INVALID, "[2,2]", _PICTURE_GLIMPSES, [2, 2], np.zeros((2, 2))),
    bad(_INVALID, "what", _PICTURE_GLIMPSES, [2, 2], [[0.0, 0.0]], noise="what", uniform_noise=False),
    bad(_INVALID, "zero", _PICTURE_GLIMPSES, [2, 2], [[0.0, 0.0]], noise="zero", uniform_noise=True),
]
_PIXELS: Final = {"centered": False, "normalized": False}

_OF_GLIMPSES: Final = [
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


RECORDS: Final = [*_OF_CROPPING, *_OF_GLIMPSES]
