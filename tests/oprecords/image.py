"""Resizing, cropping, boxes."""

from __future__ import annotations

from typing import Any

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


def _overlap(a: Any, b: Any) -> float:
    (ay1, ax1), (ay2, ax2) = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    (by1, bx1), (by2, bx2) = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    both = max(min(ay2, by2) - max(ay1, by1), 0) * max(min(ax2, bx2) - max(ax1, bx1), 0)
    areas = (ay2 - ay1) * (ax2 - ax1) + (by2 - by1) * (bx2 - bx1)
    return float(both / (areas - both)) if both else 0.0


def _suppressed(boxes: Any, scores: Any, most: Any, overlap: Any = 0.5, least: Any = -np.inf) -> Any:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if (
            len(kept) < most
            and scores[i] > least
            and all(_overlap(boxes[i], boxes[k]) <= overlap for k in kept)
        ):
            kept.append(int(i))
    return np.array(kept, int)


def _suppressed_padded(
    boxes: Any, scores: Any, most: Any, overlap: Any, least: Any, *, pad_to_max_output_size: bool
) -> Any:
    kept = _suppressed(boxes, scores, most, overlap, least)
    padding = int(most) - len(kept) if pad_to_max_output_size else 0
    return np.pad(kept, (0, padding)), len(kept)


_BOXES = np.array(
    [[0, 0, 1, 1], [0, 0.125, 1, 1.125], [0, -0.125, 1, 0.75], [0, 10, 1, 11], [1, 11.125, 0, 10.125]]
)
_SCORES = np.array([0.875, 0.75, 0.5, 0.9375, 0.25])
_SIZES = ([6, 5], [2, 2], [1, 1], [4, 3])
_WAYS: list[dict[str, bool]] = [{}, {"align_corners": True}, {"half_pixel_centers": True}]
_RESIZES = [sample(_PICTURE, size, **way) for size in _SIZES for way in _WAYS]
_NO_SIZE = bad("InvalidArgumentError", "0", _PICTURE, [0, 3])
_NO_RANK = bad("InvalidArgumentError", "", _PICTURE[0], [2, 2])
_IMAGES = {"T": ("float32", "uint8", "float64", "float16", "int32")}
_NMS = [sample(_BOXES, _SCORES, 3, 0.5), sample(_BOXES, _SCORES, 10, 0.9375)]
_T1 = {"T": ("float32",), "T_threshold": ("float32",)}

RECORDS = [
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
        "NonMaxSuppression",
        [sample(_BOXES, _SCORES, 3, iou_threshold=0.5)],
        lambda b, s, n: _suppressed(b, s, n),
        [bad("InvalidArgumentError", "", _BOXES, _SCORES[:2], 3)],
        partial=True,
    ),
    OpRecord(
        "NonMaxSuppressionV2",
        _NMS,
        _suppressed,
        [bad("InvalidArgumentError", "1.5", _BOXES, _SCORES, 3, 1.5)],
        _T1,
        partial=True,
    ),
    OpRecord(
        "NonMaxSuppressionV3",
        [sample(_BOXES, _SCORES, 3, 0.5, 0.3), sample(_BOXES, _SCORES, 0, 0.5, 0.3)],
        _suppressed,
        [bad("InvalidArgumentError", "-0.5", _BOXES, _SCORES, 3, -0.5, 0.0)],
        _T1,
        partial=True,
    ),
    OpRecord(
        "NonMaxSuppressionV4",
        [sample(_BOXES, _SCORES, 4, 0.5, 0.3, pad_to_max_output_size=p) for p in (True, False)],
        _suppressed_padded,
        dtypes=_T1,
        partial=True,
    ),
]
