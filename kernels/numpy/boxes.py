"""Crops of images one after another, each as large as what lies inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.image.boxes import checked_crop_size, crop_cost
from flowengine.kernels.registry import kernel


def _crop_positions(low: Any, high: Any, count: int, size: int) -> Any:
    """Return the position of each row (or column) of a crop in the image, float32."""
    edge = np.float32(size - 1)
    if count > 1:
        scale = (high - low) * edge / np.float32(count - 1)
        positions: Array = low * edge + np.arange(count, dtype=np.float32) * scale
        return positions
    return np.full(1, np.float32(0.5) * (low + high) * edge, np.float32)


@kernel("CropAndResize", device="CPU", fresh=True, heavy=crop_cost, host=("crop_size",))
def crop_and_resize(
    image: Array,
    boxes: Array,
    box_ind: Array,
    crop_size: Array,
    *,
    method: bytes,
    extrapolation_value: float,
) -> Any:
    """Cut boxes out of (N, H, W, C) and resize them; returns float32 (boxes, height, width, C)."""
    rows, columns = checked_crop_size(image, boxes, box_ind, crop_size)
    _, height, width, depth = image.shape
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


def _bilinear(picture: Array, y: Array, x: Array) -> Any:
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
