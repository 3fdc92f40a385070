"""Resizing of images, and its gradients."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_PICTURE = np.arange(24.0).reshape(1, 4, 3, 2) * 3 % 17


def _places(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Where in the input each element of the output lies, along one dimension."""
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

RECORDS: Final = [
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
    ),
    OpRecord(
        "ResizeNearestNeighborGrad",
        [sample(np.arange(60.0).reshape(1, 6, 5, 2) % 7, [4, 3], **way) for way in _WAYS],
        _nearest_grad,
        dtypes={"T": ("float32", "float64", "int32")},
    ),
]
