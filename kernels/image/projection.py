"""Projections of images: each place of the result is looked up at another place of the image.

A transform is eight numbers a0 a1 a2 b0 b1 b2 c0 c1: column x and row y of the result come from

    ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k),    k = c0 x + c1 y + 1

and where k is 0 nothing is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

_MODES = (b"REFLECT", b"WRAP", b"CONSTANT", b"NEAREST")
_INTERPOLATIONS = (b"NEAREST", b"BILINEAR")


def _cost(images: Array, transforms: Array, output_shape: Array, *rest: Any) -> float:
    return float(images.shape[0] * elements_of(output_shape) * images.shape[-1]) * 0.03


def _check(images: Array, transforms: Array, output_shape: Array, interpolation: bytes, mode: bytes) -> None:
    if interpolation not in _INTERPOLATIONS:
        raise InvalidArgumentError(f"interpolation must be NEAREST or BILINEAR, not {interpolation.decode()}")
    if mode not in _MODES:
        raise InvalidArgumentError(
            f"fill_mode must be REFLECT, WRAP, CONSTANT or NEAREST, not {mode.decode()}"
        )
    if images.ndim != 4:
        raise InvalidArgumentError(f"images must have rank 4, but have shape {shape_text(images)}")
    if transforms.ndim != 2 or transforms.shape[1] != 8 or transforms.shape[0] not in (1, images.shape[0]):
        raise InvalidArgumentError(
            f"transforms must be [{images.shape[0]},8] or [1,8], but have shape {shape_text(transforms)}"
        )
    if output_shape.shape != (2,):
        raise InvalidArgumentError(f"output_shape must be height and width, not {shape_text(output_shape)}")
    if (output_shape <= 0).any():
        raise InvalidArgumentError(f"output_shape must be positive, but is {output_shape.tolist()}")


def _brought_in(xp: Any, place: Any, size: int, mode: bytes) -> Any:
    """Places beyond the ends of an axis, brought in as the mode says; float32."""
    if mode == b"CONSTANT":
        return place
    last = np.float32(size - 1)
    if mode == b"NEAREST" or size <= 1:
        return xp.clip(place, np.float32(0), last)
    before, after = place < 0, place > last
    if mode == b"REFLECT":
        turn = np.float32(2 * size)
        low = turn * xp.trunc(-place / turn) + place
        low = xp.where(low < -size, low + turn, -low - np.float32(1))
        high = place - turn * xp.trunc(place / turn)
        high = xp.where(high >= size, turn - high - np.float32(1), high)
    else:
        whole = np.float32(size)
        low = place + whole * (xp.trunc(-place / last) + np.float32(1))
        high = place - whole * xp.trunc(place / last)
    return xp.clip(xp.where(before, low, xp.where(after, high, place)), np.float32(0), last)


def _nearest_place(xp: Any, place: Any) -> Any:
    """Whole places, halves away from 0; in float32 the sum with a half could be rounded up."""
    wide = place.astype(np.float64)
    return xp.copysign(xp.floor(xp.abs(wide) + np.float64(0.5)), wide)


def _projected(
    xp: Any,
    images: Array,
    transforms: Array,
    output_shape: Array,
    interpolation: bytes,
    mode: bytes,
    fill: Any,
) -> Any:
    _check(images, transforms, output_shape, interpolation, mode)
    batch, height, width, depth = images.shape
    rows, columns = output_shape.tolist()
    if not height or not width:
        return xp.zeros((batch, rows, columns, depth), images.dtype) + fill
    x = xp.arange(columns, dtype=np.float32)[None, None, :]
    y = xp.arange(rows, dtype=np.float32)[None, :, None]
    a0, a1, a2, b0, b1, b2, c0, c1 = (transforms[:, i, None, None] for i in range(8))
    scale = c0 * x + c1 * y + np.float32(1)
    across = _brought_in(xp, (a0 * x + a1 * y + a2) / scale, width, mode)
    down = _brought_in(xp, (b0 * x + b1 * y + b2) / scale, height, mode)
    somewhere = (scale != 0)[..., None]
    across, down = (xp.broadcast_to(each, (batch, rows, columns)) for each in (across, down))
    which = xp.arange(batch)[:, None, None]

    def read(row: Any, column: Any) -> Any:
        there = ((row >= 0) & (row < height) & (column >= 0) & (column < width))[..., None]
        row = xp.clip(xp.nan_to_num(row), 0, height - 1).astype(np.int64)
        column = xp.clip(xp.nan_to_num(column), 0, width - 1).astype(np.int64)
        return xp.where(there, images[which, row, column], fill)

    if interpolation == b"NEAREST":
        return xp.where(somewhere, read(_nearest_place(xp, down), _nearest_place(xp, across)), fill)
    top, left = xp.floor(down), xp.floor(across)
    bottom, right = top + np.float32(1), left + np.float32(1)

    def mixed(row: Any) -> Any:
        low, high = (read(row, column).astype(np.float32) for column in (left, right))
        return (right - across)[..., None] * low + (across - left)[..., None] * high

    value = (bottom - down)[..., None] * mixed(top) + (down - top)[..., None] * mixed(bottom)
    return xp.where(somewhere, value.astype(images.dtype), fill)


@kernel("ImageProjectiveTransformV2", fresh=True, heavy=_cost, host=("output_shape",))
def image_projective_transform_v2(
    xp: Any,
    images: Array,
    transforms: Array,
    output_shape: Array,
    *,
    interpolation: bytes,
    fill_mode: bytes,
) -> Any:
    """(N, H, W, C) -> (N, height, width, C); 0 where nothing of the image lies."""
    return _projected(xp, images, transforms, output_shape, interpolation, fill_mode, images.dtype.type(0))


@kernel("ImageProjectiveTransformV3", fresh=True, heavy=_cost, host=("output_shape", "fill_value"))
def image_projective_transform_v3(
    xp: Any,
    images: Array,
    transforms: Array,
    output_shape: Array,
    fill_value: Any,
    *,
    interpolation: bytes,
    fill_mode: bytes,
) -> Any:
    """`ImageProjectiveTransformV2` with the value where nothing of the image lies."""
    if getattr(fill_value, "ndim", 0):
        raise InvalidArgumentError(f"fill_value must be a scalar, not {shape_text(fill_value)}")
    fill = images.dtype.type(fill_value)
    return _projected(xp, images, transforms, output_shape, interpolation, fill_mode, fill)
