"""Images resized, and projected onto others."""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

# Resizing of images, and its gradients.

_PICTURE = np.arange(24.0).reshape(1, 4, 3, 2) * 3 % 17


def _places(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Return the positions in the input of the output's elements, along one dimension."""
    scale = (size - 1) / (out - 1) if align_corners and out > 1 else size / out
    index = np.arange(out)
    return (index + 0.5) * scale - 0.5 if half_pixel_centers else index * scale


def _weights(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Any:
    """The matrix that interpolates one dimension."""
    place = _places(size, out, align_corners, half_pixel_centers)
    low = np.maximum(np.floor(place), 0).astype(int)
    high = np.minimum(np.ceil(place), size - 1).astype(int)
    part = place - np.floor(place)
    matrix = np.zeros((out, size))
    for i in range(out):
        matrix[i, low[i]] += 1 - part[i]
        matrix[i, high[i]] += part[i]
    return matrix


def _bilinear(x: Any, size: Any, *, align_corners: bool, half_pixel_centers: bool) -> Any:
    rows = _weights(x.shape[1], int(size[0]), align_corners, half_pixel_centers)
    columns = _weights(x.shape[2], int(size[1]), align_corners, half_pixel_centers)
    return np.einsum("ah,nhwc,bw->nabc", rows, x, columns)


def _bilinear_grad(g: Any, x: Any, *, align_corners: bool, half_pixel_centers: bool) -> Any:
    rows = _weights(x.shape[1], g.shape[1], align_corners, half_pixel_centers)
    columns = _weights(x.shape[2], g.shape[2], align_corners, half_pixel_centers)
    return np.einsum("ah,nabc,bw->nhwc", rows, g, columns)


def _nearest_index(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Any:
    place = _places(size, out, align_corners, False)
    if half_pixel_centers:
        place = (np.arange(out) + 0.5) * (size / out)
    chosen = np.floor(place + 0.5) if align_corners else np.floor(place)
    return np.minimum(chosen, size - 1).astype(int)


def _nearest(x: Any, size: Any, *, align_corners: bool, half_pixel_centers: bool) -> Any:
    rows = _nearest_index(x.shape[1], int(size[0]), align_corners, half_pixel_centers)
    columns = _nearest_index(x.shape[2], int(size[1]), align_corners, half_pixel_centers)
    return x[:, rows][:, :, columns]


def _nearest_grad(g: Any, size: Any, *, align_corners: bool, half_pixel_centers: bool) -> Any:
    rows = _nearest_index(int(size[0]), g.shape[1], align_corners, half_pixel_centers)
    columns = _nearest_index(int(size[1]), g.shape[2], align_corners, half_pixel_centers)
    result = np.zeros((g.shape[0], int(size[0]), int(size[1]), g.shape[3]), g.dtype)
    places: Any = (slice(None), rows[:, None], columns[None, :])
    np.add.at(result, places, g)
    return result


_SIZES = ([6, 5], [2, 2], [1, 1], [4, 3])
_WAYS: list[dict[str, bool]] = [{}, {"align_corners": True}, {"half_pixel_centers": True}]
_RESIZES = [sample(_PICTURE, size, **way) for size in _SIZES for way in _WAYS]
_NO_SIZE = bad("InvalidArgumentError", "0", _PICTURE, [0, 3])
_NO_RANK = bad("InvalidArgumentError", "", _PICTURE[0], [2, 2])
_IMAGES = {"T": ("float32", "uint8", "float64", "float16", "int32")}

_OF_NEIGHBOURS: Final = [
    OpRecord(
        "ResizeBilinear", _RESIZES, _bilinear, [_NO_SIZE, _NO_RANK], _IMAGES, loose=10, differentiable=True
    ),
    OpRecord("ResizeNearestNeighbor", _RESIZES, _nearest, [_NO_SIZE, _NO_RANK], _IMAGES, differentiable=True),
    OpRecord(
        "ResizeBilinearGrad",
        [sample(np.arange(60.0).reshape(1, 6, 5, 2) % 7, _PICTURE, **way) for way in _WAYS],
        _bilinear_grad,
        dtypes={"T": ("float32",)},
        loose=20,
        differentiable=("grads",),
    ),
    OpRecord(
        "ResizeNearestNeighborGrad",
        [sample(np.arange(60.0).reshape(1, 6, 5, 2) % 7, [4, 3], **way) for way in _WAYS],
        _nearest_grad,
        dtypes={"T": ("float32", "float64", "int32")},
        differentiable=True,
    ),
]


def _keys(x: float, sharpness: float) -> float:
    x = abs(x)
    if x < 1:
        return (sharpness + 2) * x**3 - (sharpness + 3) * x**2 + 1
    return sharpness * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def _cubic_matrix(size: int, out: int, half_pixel: bool) -> Any:
    """(out, size): what each output element takes of each input element."""
    matrix = np.zeros((out, size))
    for row in range(out):
        where = (row + 0.5) * size / out - 0.5 if half_pixel else row * size / out
        for i in range(math.floor(where) - 1, math.floor(where) + 3):
            if half_pixel and not 0 <= i < size:
                continue
            matrix[row, min(max(i, 0), size - 1)] += _keys(where - i, -0.5 if half_pixel else -0.75)
    return matrix / matrix.sum(axis=1, keepdims=True)


def _filter_matrix(size: int, out: int, scale: float, shift: float, kernel_type: bytes, wide: bool) -> Any:
    """(out, size): a triangle, or three lobes of a sinc, around each place."""
    spread = max(1 / scale, 1.0) if wide else 1.0
    matrix = np.zeros((out, size))
    for row in range(out):
        where = (row + 0.5 - shift) / scale
        if not 0 <= where <= size:
            continue
        for i in range(size):
            x = abs(i + 0.5 - where) / spread
            if kernel_type == b"triangle":
                matrix[row, i] = max(1 - x, 0)
            elif x < 3:
                matrix[row, i] = np.sinc(x) * np.sinc(x / 3)
        matrix[row] /= matrix[row].sum() or 1.0
    return matrix


def _apply(both: Any, images: Any) -> Any:
    return np.einsum("ah,bw,nhwc->nabc", *both, images)


def _bicubic(images: Any, size: Any, *, half_pixel_centers: bool) -> Any:
    both = [_cubic_matrix(images.shape[1 + i], int(size[i]), half_pixel_centers) for i in range(2)]
    return _apply(both, images.astype(np.float64))


def _bicubic_grad(grads: Any, original: Any, *, half_pixel_centers: bool) -> Any:
    both = [_cubic_matrix(original.shape[i], grads.shape[i], half_pixel_centers).T for i in (1, 2)]
    return _apply(both, grads)


def _area(images: Any, size: Any) -> Any:
    """The mean over equal parts: each pixel is cut into as many, and those are shared out."""
    x = images.astype(np.float64)
    for axis, out in zip((1, 2), size, strict=True):
        parts = x.repeat(int(out), axis=axis)
        x = parts.reshape(*x.shape[:axis], int(out), x.shape[axis], *x.shape[axis + 1 :]).mean(axis + 1)
    return x


def _sampled(images: Any, size: Any, scale: Any, shift: Any, *, kernel_type: bytes, antialias: bool) -> Any:
    both = [
        _filter_matrix(images.shape[1 + i], int(size[i]), scale[i], shift[i], kernel_type, antialias)
        for i in range(2)
    ]
    return _apply(both, images.astype(np.float64))


def _sampled_grad(
    grads: Any, original: Any, scale: Any, shift: Any, *, kernel_type: bytes, antialias: bool
) -> Any:
    both = [
        _filter_matrix(
            original.shape[1 + i], grads.shape[1 + i], scale[i], shift[i], kernel_type, antialias
        ).T
        for i in range(2)
    ]
    return _apply(both, grads)


_PIXELS: Final = (np.arange(120) * 7 % 31).reshape(2, 4, 5, 3)
_TRIANGLE: Final = {"kernel_type": "triangle", "antialias": True}
_INVALID: Final = "InvalidArgumentError"
_LESS: Final = {"T": ["float32", "uint8", "float64", "float16"]}

_OF_SPANS: Final = [
    OpRecord(
        "ResizeBicubic",
        [
            sample(_PIXELS, [8, 10]),
            sample(_PIXELS, [2, 5], half_pixel_centers=True),
            sample(_PIXELS, [8, 10], half_pixel_centers=True),
            sample(_PIXELS[:0], [2, 2]),
        ],
        _bicubic,
        [
            bad(_INVALID, "0 x 1", _PIXELS, [0, 1]),
            bad(_INVALID, "[4,5,3]", _PIXELS[0], [1, 1]),
            bad(_INVALID, "align_corners", _PIXELS, [1, 1], align_corners=True, half_pixel_centers=True),
        ],
        dtypes=_LESS,
        loose=10,
        differentiable=True,
    ),
    OpRecord(
        "ResizeBicubicGrad",
        [
            sample(_PIXELS[:, :2], np.ones((2, 4, 5, 3))),
            sample(_PIXELS, np.ones((2, 2, 10, 3)), half_pixel_centers=True),
        ],
        _bicubic_grad,
        [bad(_INVALID, "batch or depth", _PIXELS[:1], np.ones((2, 4, 5, 3)))],
        dtypes={"T": ["float32"]},  # in float64 the weights still are float32, as TensorFlow has them
        loose=10,
        differentiable=("grads",),
    ),
    OpRecord(
        "ResizeArea",
        [
            sample(_PIXELS, [2, 3]),
            sample(_PIXELS, [8, 7]),
            sample(_PIXELS, [1, 1]),
            sample(_PIXELS[:0], [2, 2]),
        ],
        _area,
        [bad(_INVALID, "0 x 1", _PIXELS, [0, 1]), bad(_INVALID, "[4,5,3]", _PIXELS[0], [1, 1])],
        dtypes=_LESS,
        loose=10,
    ),
    OpRecord(
        "ScaleAndTranslate",
        [
            sample(_PIXELS, [3, 9], [0.75, 1.75], [0.0, 0.25], **_TRIANGLE),
            sample(_PIXELS, [3, 2], [0.6, 0.4], [-1.0, 0.5]),
            sample(_PIXELS, [3, 2], [0.6, 0.4], [0.0, 40.0], antialias=False),
            sample(np.ones((1, 40, 2, 1)), [2, 2], [0.05, 1.0], [0.0, 0.0]),
        ],
        _sampled,
        [
            bad(_INVALID, "greater than zero", _PIXELS, [2, 2], [0.0, 1.0], [0.0, 0.0]),
            bad(_INVALID, "finite", _PIXELS, [2, 2], [1.0, 1.0], [0.0, np.inf]),
            bad(_INVALID, "[3]", _PIXELS, [2, 2], [1.0, 1.0, 1.0], [0.0, 0.0]),
            bad(_INVALID, "what", _PIXELS, [2, 2], [1.0, 1.0], [0.0, 0.0], kernel_type="what"),
        ],
        dtypes=_LESS,
        loose=20,
        differentiable=("images",),
    ),
    OpRecord(
        "ScaleAndTranslateGrad",
        [
            sample(_PIXELS, np.ones((2, 6, 2, 3)), [1.5, 0.5], [0.0, 0.25], **_TRIANGLE),
            sample(_PIXELS, np.ones((2, 6, 2, 3)), [0.6, 0.4], [-1.0, 0.5]),
        ],
        _sampled_grad,
        [bad(_INVALID, "batch or depth", _PIXELS[:1], np.ones((2, 4, 5, 3)), [1.0, 1.0], [0.0, 0.0])],
        loose=20,
        differentiable=("grads",),
    ),
]

_OF_RESIZING: Final = [*_OF_NEIGHBOURS, *_OF_SPANS]


# Projections of images onto others.

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


_WAYS_PROJECTION: Final = [
    {"interpolation": how, "fill_mode": mode}
    for how in ("NEAREST", "BILINEAR")
    for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST")
]
_ALL: Final = [
    (transform, size, way)
    for way in _WAYS_PROJECTION
    for transform, size in ((_SAME, [4, 3]), (_SHIFTED, [5, 4]), (_TURNED, [3, 5]))
]
#: With quotients, which are float32 whatever the images are.
_FAR_ALL: Final = [(_FAR, [4, 5], {**way, "dtype": "float32"}) for way in _WAYS_PROJECTION]
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


_OF_PROJECTION: Final = [
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


RECORDS: Final = [*_OF_RESIZING, *_OF_PROJECTION]
