"""Boxes in images: crops resized to one size.

A box is (y1, x1, y2, x2). For crops it is in units of the image, 0 to 1 from its first to its last pixel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel


def _check_boxes(boxes: Array, box_ind: Array, batch: int) -> None:
    if boxes.size == 0 and box_ind.size == 0 and boxes.ndim == 2:
        return
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InvalidArgumentError(f"boxes must be 2-D with 4 columns, not {shape_text(boxes)}")
    if box_ind.ndim != 1 or box_ind.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError(
            f"box_ind must be a vector with an entry for each box, not {shape_text(box_ind)}"
        )
    if box_ind.size and (int(box_ind.min()) < 0 or int(box_ind.max()) >= batch):
        raise OutOfRangeError(f"box_ind has values outside [0, {batch})")


def _crop_positions(low: Any, high: Any, count: int, size: int) -> Array:
    """Where each row (or column) of a crop lies in the image, float32."""
    edge = np.float32(size - 1)
    if count > 1:
        scale = (high - low) * edge / np.float32(count - 1)
        positions: Array = low * edge + np.arange(count, dtype=np.float32) * scale
        return positions
    return np.full(1, np.float32(0.5) * (low + high) * edge, np.float32)


def _crop_cost(image: Array, boxes: Array, box_ind: Array, crop_size: Array) -> float:
    return float(boxes.shape[0] * np.prod(crop_size, dtype=np.float64) * image.shape[-1] * 0.02)


@kernel("CropAndResize", fresh=True, heavy=_crop_cost)
def crop_and_resize(
    image: Array,
    boxes: Array,
    box_ind: Array,
    crop_size: Array,
    *,
    method: bytes,
    extrapolation_value: float,
) -> Any:
    """Cut boxes out of (N, H, W, C) and resize them; returns float32 (boxes, height, width, C).

    What lies outside of the image is `extrapolation_value`. OutOfRangeError where `box_ind` names no
    image.
    """
    if image.ndim != 4:
        raise InvalidArgumentError(f"input image must be 4-D, not {shape_text(image)}")
    batch, height, width, depth = image.shape
    if height <= 0 or width <= 0:
        raise InvalidArgumentError("image dimensions must be positive")
    _check_boxes(boxes, box_ind, batch)
    if crop_size.ndim != 1 or crop_size.shape[0] != 2:
        raise InvalidArgumentError(f"crop_size must be 1-D with two elements, not {shape_text(crop_size)}")
    rows, columns = crop_size.tolist()
    if rows <= 0 or columns <= 0:
        raise InvalidArgumentError(f"crop dimensions must be positive, not {rows} x {columns}")
    crops = np.full((boxes.shape[0], rows, columns, depth), extrapolation_value, np.float32)
    for crop, (y1, x1, y2, x2), source in zip(crops, boxes, box_ind.tolist(), strict=True):
        y = _crop_positions(y1, y2, rows, height)
        x = _crop_positions(x1, x2, columns, width)
        inside_y = np.flatnonzero((y >= 0) & (y <= height - 1))
        inside_x = np.flatnonzero((x >= 0) & (x <= width - 1))
        if not inside_y.size or not inside_x.size:
            continue
        y, x = y[inside_y], x[inside_x]
        picture = image[source]
        if method == b"nearest":
            near_y, near_x = np.floor(y + 0.5).astype(int), np.floor(x + 0.5).astype(int)
            value = picture[near_y[:, None], near_x].astype(np.float32)
        else:
            value = _bilinear(picture, y, x)
        crop[inside_y[:, None], inside_x] = value
    return crops


def _bilinear(picture: Array, y: Array, x: Array) -> Array:
    top, bottom = np.floor(y).astype(int)[:, None], np.ceil(y).astype(int)[:, None]
    left, right = np.floor(x).astype(int), np.ceil(x).astype(int)
    down = (y - np.floor(y))[:, None, None]
    across = (x - np.floor(x))[:, None]
    upper = picture[top, left].astype(np.float32)
    upper += (picture[top, right].astype(np.float32) - upper) * across
    lower = picture[bottom, left].astype(np.float32)
    lower += (picture[bottom, right].astype(np.float32) - lower) * across
    result: Array = upper + (lower - upper) * down
    return result
