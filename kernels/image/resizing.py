"""Resizing of images, (N, H, W, C), and its gradients.

Both ways of interpolating work along height and width in turn: rows are gathered and mixed, then columns.
A gradient does the same backwards with the transposed matrix of weights.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.parallel import cores, slices, spread
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

#: Elements of a result that are mixed by every core, and how many each takes at least.
_LARGE: Final = 1 << 17
_PART: Final = 1 << 15
#: An axis shorter than this is joined to the one before it: NumPy begins anew for each innermost one.
_SHORT: Final = 32


def _scale(size: int, out: int, align_corners: bool) -> Any:
    if align_corners and out > 1:
        return np.float32(size - 1) / np.float32(out - 1)
    return np.float32(size) / np.float32(out)


def output_size(images: Array, size: Array) -> tuple[int, int]:
    """(height, width) to resize to; InvalidArgumentError for anything but images and a positive pair."""
    if images.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional{shape_text(images)}")
    if size.ndim != 1:
        raise InvalidArgumentError(f"shape_t must be 1-dimensional{shape_text(size)}")
    if size.shape[0] != 2:
        raise InvalidArgumentError(f"shape_t must have two elements{shape_text(size)}")
    height, width = size.tolist()
    if height <= 0 or width <= 0:
        raise InvalidArgumentError(f"output dimensions must be positive, not {height} x {width}")
    if images.shape[1] <= 0 or images.shape[2] <= 0:
        raise InvalidArgumentError(f"input image must be of non-zero size, not {shape_text(images)}")
    return height, width


def _positions(size: int, out: int, align_corners: bool, half_pixel: bool) -> Array:
    """Where each output element lies among the input's, float32."""
    steps = np.arange(out, dtype=np.float32)
    scale = _scale(size, out, align_corners)
    where: Array = (steps + np.float32(0.5)) * scale - np.float32(0.5) if half_pixel else steps * scale
    return where


@functools.lru_cache(maxsize=256)
def _linear(size: int, out: int, align_corners: bool, half_pixel: bool) -> tuple[Array, Array, Array]:
    """Lower neighbour, upper neighbour, and the weight of the upper, of each output element."""
    where = _positions(size, out, align_corners, half_pixel)
    floor = np.floor(where)
    lower = np.clip(floor.astype(np.int64), 0, size - 1)
    upper = np.clip(floor.astype(np.int64) + 1, 0, size - 1)
    return lower, upper, where - floor


@functools.lru_cache(maxsize=256)
def _nearest(size: int, out: int, align_corners: bool, half_pixel: bool) -> Array:
    """The input element that each output element takes."""
    steps = np.arange(out, dtype=np.float32)
    scale = _scale(size, out, align_corners)
    where = (steps + np.float32(0.5)) * scale if half_pixel else steps * scale
    # Ties round away from zero; nothing is negative here.
    chosen = np.floor(where + np.float32(0.5)) if align_corners else np.floor(where)
    elements: Array = np.clip(chosen.astype(np.int64), 0, size - 1)
    return elements


def _mixed(x: Array, axis: int, lower: Array, upper: Array, weight: Array) -> Array:
    """Neighbours along an axis mixed by the weight of the upper: large results row by row on all cores."""
    shape = (*x.shape[:axis], len(lower), *x.shape[axis + 1 :])
    rows = shape[1]
    row = math.prod(shape) // max(rows, 1)
    if math.prod(shape) < _LARGE or cores() == 1:
        return _mixed_rows(x, axis, lower, upper, weight)
    result = empty(shape, np.float32)
    parts = slices(rows, max(1, _PART // row, -(-rows // (2 * cores()))))

    def mix(number: int) -> None:
        part = parts[number]
        if axis == 1:
            result[:, part] = _mixed_rows(x, axis, lower[part], upper[part], weight[part])
        else:
            result[:, part] = _mixed_rows(x[:, part], axis, lower, upper, weight)

    spread(mix, len(parts))
    return result


def _mixed_rows(x: Array, axis: int, lower: Array, upper: Array, weight: Array) -> Array:
    low = np.take(x, lower, axis=axis)
    high = np.take(x, upper, axis=axis)
    shape = high.shape
    inner = math.prod(shape[axis + 1 :])
    if inner < _SHORT:
        low, high = low.reshape(*shape[:axis], -1), high.reshape(*shape[:axis], -1)
        weight = np.repeat(weight, inner)
    else:
        weight = weight.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    high -= low
    high *= weight
    high += low
    return high.reshape(shape)


def _check_modes(align_corners: bool, half_pixel_centers: bool) -> None:
    if align_corners and half_pixel_centers:
        raise InvalidArgumentError("If half_pixel_centers is True, align_corners must be False.")


def _resize_cost(images: Array, size: Array) -> float:
    return float(np.prod(size, dtype=np.float64) * images.shape[0] * images.shape[-1] * 0.006)


@kernel("ResizeBilinear", fresh=True, heavy=_resize_cost)
def resize_bilinear(images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Mix the four neighbours of each place; returns float32 (N, height, width, C)."""
    _check_modes(align_corners, half_pixel_centers)
    height, width = output_size(images, size)
    x = images.astype(np.float32, copy=False)
    if (height, width) == x.shape[1:3]:
        return x.copy() if x is images else x
    x = _mixed(x, 2, *_linear(x.shape[2], width, align_corners, half_pixel_centers))
    return _mixed(x, 1, *_linear(x.shape[1], height, align_corners, half_pixel_centers))


@kernel("ResizeNearestNeighbor", fresh=True, heavy=_resize_cost)
def resize_nearest_neighbor(
    images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """Take the nearest element; returns (N, height, width, C) of the images' type."""
    _check_modes(align_corners, half_pixel_centers)
    height, width = output_size(images, size)
    rows = _nearest(images.shape[1], height, align_corners, half_pixel_centers)
    columns = _nearest(images.shape[2], width, align_corners, half_pixel_centers)
    return np.take(np.take(images, rows, axis=1), columns, axis=2)


def _spread(gradient: Array, matrix: Array, axis: int) -> Array:
    """Multiply the axis of a gradient by a matrix (size, out)."""
    moved = np.moveaxis(gradient, axis, -2)
    return np.moveaxis(np.matmul(matrix, moved), -2, axis)


def _weights(size: int, lower: Array, upper: Array, weight: Array, dtype: Any) -> Array:
    """The matrix (size, out) whose transpose interpolates."""
    matrix = np.zeros((size, lower.size), dtype)
    steps = np.arange(lower.size)
    np.add.at(matrix, (lower, steps), 1 - weight.astype(dtype))
    np.add.at(matrix, (upper, steps), weight.astype(dtype))
    return matrix


@kernel("ResizeBilinearGrad", fresh=True)
def resize_bilinear_grad(
    grads: Array, original_image: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """The gradient of `ResizeBilinear`, of the shape and type of the original."""
    _check_modes(align_corners, half_pixel_centers)
    if grads.ndim != 4 or original_image.ndim != 4:
        raise InvalidArgumentError(
            f"input must be 4-dimensional: {shape_text(grads)}, {shape_text(original_image)}"
        )
    dtype = np.dtype(np.float64) if original_image.dtype == np.float64 else np.dtype(np.float32)
    result = grads.astype(dtype, copy=False)
    for axis in (1, 2):
        size, out = original_image.shape[axis], grads.shape[axis]
        parts = _linear(size, out, align_corners, half_pixel_centers)
        result = _spread(result, _weights(size, *parts, dtype), axis)
    return np.ascontiguousarray(result).astype(original_image.dtype, copy=False)


@kernel("ResizeNearestNeighborGrad", fresh=True)
def resize_nearest_neighbor_grad(
    grads: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """The gradient of `ResizeNearestNeighbor` for an original of this height and width."""
    _check_modes(align_corners, half_pixel_centers)
    height, width = output_size(grads, size)
    rows = _nearest(height, grads.shape[1], align_corners, half_pixel_centers)
    columns = _nearest(width, grads.shape[2], align_corners, half_pixel_centers)
    wide = np.float32 if grads.dtype.itemsize == 2 and grads.dtype.kind not in "iu" else grads.dtype
    across = np.zeros((grads.shape[0], grads.shape[1], width, grads.shape[3]), wide)
    for column, source in enumerate(columns.tolist()):
        across[:, :, source] += grads[:, :, column]
    result = np.zeros((grads.shape[0], height, width, grads.shape[3]), wide)
    for row, source in enumerate(rows.tolist()):
        result[:, source] += across[:, row]
    return result.astype(grads.dtype, copy=False)
