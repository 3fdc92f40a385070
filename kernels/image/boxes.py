"""Boxes in images: crops resized to one size.

A box is (y1, x1, y2, x2). For crops it is in units of the image, 0 to 1 from its first to its last pixel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError
from flowengine.kernels.common.checks import refuse
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
    if box_ind.size:
        refuse(
            ((box_ind < 0) | (box_ind >= batch)).any(),
            lambda: OutOfRangeError(f"box_ind has values outside [0, {batch})"),
        )


def crop_cost(image: Array, boxes: Array, box_ind: Array, crop_size: Array) -> float:
    return float(boxes.shape[0] * math.prod(crop_size.tolist()) * image.shape[-1] * 0.02)


def checked_crop_size(image: Array, boxes: Array, box_ind: Array, crop_size: Array) -> tuple[int, int]:
    """(height, width) of the crops; errors where images, boxes or sizes are none."""
    if image.ndim != 4:
        raise InvalidArgumentError(f"input image must be 4-D, not {shape_text(image)}")
    batch, height, width, _ = image.shape
    if height <= 0 or width <= 0:
        raise InvalidArgumentError("image dimensions must be positive")
    _check_boxes(boxes, box_ind, batch)
    if crop_size.ndim != 1 or crop_size.shape[0] != 2:
        raise InvalidArgumentError(f"crop_size must be 1-D with two elements, not {shape_text(crop_size)}")
    rows, columns = crop_size.tolist()
    if rows <= 0 or columns <= 0:
        raise InvalidArgumentError(f"crop dimensions must be positive, not {rows} x {columns}")
    return rows, columns


def _positions(xp: Any, low: Array, high: Array, count: int, size: int) -> Any:
    """Where each row (or column) of the crops lies in the image, float32 (boxes, count)."""
    edge = np.float32(size - 1)
    if count > 1:
        scale = (high - low) * edge / np.float32(count - 1)
        return (low * edge)[:, None] + xp.arange(count, dtype=np.float32) * scale[:, None]
    return (np.float32(0.5) * (low + high) * edge)[:, None]


@kernel("CropAndResize", fresh=True, heavy=crop_cost, host=("crop_size",))
def crop_and_resize(
    xp: Any,
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
    rows, columns = checked_crop_size(image, boxes, box_ind, crop_size)
    _, height, width, depth = image.shape
    if not boxes.size:
        return xp.zeros((boxes.shape[0], rows, columns, depth), np.float32)
    y = _positions(xp, boxes[:, 0], boxes[:, 2], rows, height)
    x = _positions(xp, boxes[:, 1], boxes[:, 3], columns, width)
    inside = ((y >= 0) & (y <= height - 1))[:, :, None, None] & ((x >= 0) & (x <= width - 1))[
        :, None, :, None
    ]
    y, x = xp.clip(y, 0, height - 1), xp.clip(x, 0, width - 1)
    source = box_ind[:, None, None]

    def picked(down: Array, across: Array) -> Any:
        return image[source, down.astype(np.int64)[:, :, None], across.astype(np.int64)[:, None, :]].astype(
            np.float32
        )

    if method == b"nearest":
        value = picked(xp.floor(y + 0.5), xp.floor(x + 0.5))
    else:
        top, left = xp.floor(y), xp.floor(x)
        down, across = (y - top)[:, :, None, None], (x - left)[:, None, :, None]
        bottom, right = xp.ceil(y), xp.ceil(x)
        upper, lower = picked(top, left), picked(bottom, left)
        upper = upper + (picked(top, right) - upper) * across
        lower = lower + (picked(bottom, right) - lower) * across
        value = upper + (lower - upper) * down
    return xp.where(inside, value, np.float32(extrapolation_value))
