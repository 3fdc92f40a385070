"""Images resized, and projected onto others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.indices import along
from flowengine.kernels.common.interpolation import linear, nearest, weights
from flowengine.kernels.common.matrices import product
from flowengine.kernels.common.spans import KERNELS, SpanWeights, area, cubic, sampled
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

# Resizing of images, (N, H, W, C), and its gradients.
#
# Both ways of interpolating work along height and width in turn: rows are gathered and mixed, then columns.
# A gradient does the same backwards with the transposed matrix of weights.

#: An axis shorter than this is joined to the one before it: NumPy begins anew for each innermost one.
_SHORT: Final = 32


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


def mixed(xp: Any, x: Array, axis: int, lower: Array, upper: Array, weight: Array) -> Any:
    """Neighbours along an axis mixed by the weight of the upper."""
    low = along(xp, x, lower, axis)
    high = along(xp, x, upper, axis)
    shape = high.shape
    inner = math.prod(shape[axis + 1 :])
    if inner < _SHORT:
        joined = (*shape[:axis], shape[axis] * inner)
        low, high = low.reshape(joined), high.reshape(joined)
        weight = xp.repeat(weight, inner)
    else:
        weight = weight.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    high -= low
    high *= weight
    high += low
    return high.reshape(shape)


def check_modes(align_corners: bool, half_pixel_centers: bool) -> None:
    """InvalidArgumentError for two ways at once to say where corners lie."""
    if align_corners and half_pixel_centers:
        raise InvalidArgumentError("If half_pixel_centers is True, align_corners must be False.")


def resize_cost(images: Array, size: Array) -> float:
    return float(elements_of(size) * images.shape[0] * images.shape[-1] * 0.006)


@kernel("ResizeBilinear", fresh=True, heavy=resize_cost, host=("size",))
def resize_bilinear(
    xp: Any, images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """Mix the four neighbours of each place; returns float32 (N, height, width, C)."""
    check_modes(align_corners, half_pixel_centers)
    height, width = output_size(images, size)
    x = images.astype(np.float32, copy=False)
    if (height, width) == x.shape[1:3]:
        return x.copy() if x is images else x
    for axis, wanted in ((2, width), (1, height)):
        tables = linear(x.shape[axis], wanted, align_corners, half_pixel_centers)
        x = mixed(xp, x, axis, *map(xp.asarray, tables))
    return x


@kernel("ResizeNearestNeighbor", fresh=True, heavy=resize_cost, host=("size",))
def resize_nearest_neighbor(
    xp: Any, images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """Take the nearest element; returns (N, height, width, C) of the images' type."""
    check_modes(align_corners, half_pixel_centers)
    height, width = output_size(images, size)
    rows = nearest(images.shape[1], height, align_corners, half_pixel_centers)
    columns = nearest(images.shape[2], width, align_corners, half_pixel_centers)
    return along(xp, along(xp, images, xp.asarray(rows), 1), xp.asarray(columns), 2)


def _spread(xp: Any, gradient: Array, matrix: Array, axis: int) -> Any:
    """Multiply the axis of a gradient by a matrix (size, out)."""
    moved = xp.moveaxis(gradient, axis, -2)
    return xp.moveaxis(product(xp, matrix, moved), -2, axis)


@kernel("ResizeBilinearGrad", fresh=True)
def resize_bilinear_grad(
    xp: Any, grads: Array, original_image: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """The gradient of `ResizeBilinear`, of the shape and type of the original."""
    check_modes(align_corners, half_pixel_centers)
    if grads.ndim != 4 or original_image.ndim != 4:
        raise InvalidArgumentError(
            f"input must be 4-dimensional: {shape_text(grads)}, {shape_text(original_image)}"
        )
    dtype = np.dtype(np.float64) if original_image.dtype == np.float64 else np.dtype(np.float32)
    result = grads.astype(dtype, copy=False)
    for axis in (1, 2):
        size, out = original_image.shape[axis], grads.shape[axis]
        parts = linear(size, out, align_corners, half_pixel_centers)
        result = _spread(xp, result, xp.asarray(weights(size, *parts, dtype)), axis)
    return xp.ascontiguousarray(result).astype(original_image.dtype, copy=False)


@kernel("ResizeNearestNeighborGrad", fresh=True, host=("size",))
def resize_nearest_neighbor_grad(
    xp: Any, grads: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """The gradient of `ResizeNearestNeighbor` for an original of this height and width."""
    check_modes(align_corners, half_pixel_centers)
    height, width = output_size(grads, size)
    rows = nearest(height, grads.shape[1], align_corners, half_pixel_centers)
    columns = nearest(width, grads.shape[2], align_corners, half_pixel_centers)
    wide = np.float32 if grads.dtype.itemsize == 2 and grads.dtype.kind not in "iu" else grads.dtype
    across = xp.zeros((grads.shape[0], grads.shape[1], width, grads.shape[3]), wide)
    for column, source in enumerate(columns.tolist()):
        across[:, :, source] += grads[:, :, column]
    result = xp.zeros((grads.shape[0], height, width, grads.shape[3]), wide)
    for row, source in enumerate(rows.tolist()):
        result[:, source] += across[:, row]
    return result.astype(grads.dtype, copy=False)


#: Spans up to this long are added one element after another; longer ones are a product with a matrix.
_SPAN_MAX: Final = 12


def _respanned(xp: Any, x: Array, axis: int, spans: SpanWeights) -> Any:
    """Make the axis anew: each element the weighted sum of a span."""
    if spans.indices.shape[1] > _SPAN_MAX:
        return _spread(xp, x, xp.asarray(spans.matrix(x.shape[axis], x.dtype).T), axis)
    shape = (-1,) + (1,) * (x.ndim - 1 - axis)
    total = None
    for indices, shares in zip(spans.indices.T, spans.weights.T, strict=True):
        part = along(xp, x, xp.asarray(indices), axis)
        part *= xp.asarray(shares).reshape(shape)
        total = part if total is None else total + part
    return total


def _spans_cost(images: Array, size: Array, *_: Array) -> float:
    return 4 * resize_cost(images, size)


@kernel("ResizeBicubic", fresh=True, heavy=_spans_cost, host=("size",))
def resize_bicubic(
    xp: Any, images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """Mix the sixteen neighbours of each place; returns float32 (N, height, width, C)."""
    check_modes(align_corners, half_pixel_centers)
    height, width = output_size(images, size)
    x = images.astype(np.float32)
    x = _respanned(xp, x, 2, cubic(x.shape[2], width, align_corners, half_pixel_centers))
    return _respanned(xp, x, 1, cubic(x.shape[1], height, align_corners, half_pixel_centers))


@kernel("ResizeArea", fresh=True, heavy=_spans_cost, host=("size",))
def resize_area(xp: Any, images: Array, size: Array, *, align_corners: bool) -> Any:
    """The mean of what each place covers; returns float32 (N, height, width, C)."""
    height, width = output_size(images, size)
    x = images.astype(np.float32)
    x = _respanned(xp, x, 2, area(x.shape[2], width, align_corners))
    return _respanned(xp, x, 1, area(x.shape[1], height, align_corners))


def _transforms(
    images: Array, out: tuple[int, int], scale: Array, translation: Array, kernel_type: bytes, antialias: bool
) -> list[SpanWeights]:
    """Spans of height and width; InvalidArgumentError for an unknown filter, or a bad scale."""
    if kernel_type not in KERNELS:
        raise InvalidArgumentError(
            f"Unrecognized kernel type: {kernel_type.decode('utf-8', 'backslashreplace')}"
        )
    for name, pair in (("scale", scale), ("translation", translation)):
        if pair.shape != (2,):
            raise InvalidArgumentError(f"{name} must be two numbers, not {shape_text(pair)}")
    if not (scale > 0).all():
        raise InvalidArgumentError(f"scale must be greater than zero, not {scale.tolist()}")
    if not all(map(math.isfinite, (*scale.tolist(), *translation.tolist()))):
        raise InvalidArgumentError(
            f"scale and translation must be finite, not {scale.tolist()}, {translation.tolist()}"
        )
    return [
        sampled(kernel_type, images.shape[1 + i], out[i], float(scale[i]), float(translation[i]), antialias)
        for i in range(2)
    ]


@kernel("ScaleAndTranslate", fresh=True, heavy=_spans_cost, host=("size", "scale", "translation"))
def scale_and_translate(
    xp: Any,
    images: Array,
    size: Array,
    scale: Array,
    translation: Array,
    *,
    kernel_type: bytes,
    antialias: bool,
) -> Any:
    """Resample under a scaling and a shift to (N, height, width, C), float32; 0 outside of the image."""
    out = output_size(images, size)
    rows, columns = _transforms(images, out, scale, translation, kernel_type, antialias)
    x = _respanned(xp, images.astype(np.float32), 2, columns)
    return _respanned(xp, x, 1, rows)


@kernel("ScaleAndTranslateGrad", fresh=True, host=("scale", "translation"))
def scale_and_translate_grad(
    xp: Any,
    grads: Array,
    original_image: Array,
    scale: Array,
    translation: Array,
    *,
    kernel_type: bytes,
    antialias: bool,
) -> Any:
    """The gradient of `ScaleAndTranslate`, of the shape of the original."""
    _check_gradient(grads, original_image)
    out = (grads.shape[1], grads.shape[2])
    both = _transforms(original_image, out, scale, translation, kernel_type, antialias)
    return _spread_back(xp, grads, original_image, both)


@kernel("ResizeBicubicGrad", fresh=True)
def resize_bicubic_grad(
    xp: Any, grads: Array, original_image: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """The gradient of `ResizeBicubic`, of the shape and type of the original."""
    check_modes(align_corners, half_pixel_centers)
    _check_gradient(grads, original_image)
    both = [cubic(original_image.shape[i], grads.shape[i], align_corners, half_pixel_centers) for i in (1, 2)]
    return _spread_back(xp, grads, original_image, both)


def _check_gradient(grads: Array, original: Array) -> None:
    if grads.ndim != 4 or original.ndim != 4:
        raise InvalidArgumentError(
            f"input must be 4-dimensional: {shape_text(grads)}, {shape_text(original)}"
        )
    if grads.shape[0] != original.shape[0] or grads.shape[3] != original.shape[3]:
        raise InvalidArgumentError(
            f"gradient and image differ in batch or depth: {shape_text(grads)}, {shape_text(original)}"
        )


def _spread_back(xp: Any, grads: Array, original: Array, both: Sequence[SpanWeights]) -> Any:
    result = grads.astype(original.dtype, copy=False)
    for axis, spans in zip((1, 2), both, strict=True):
        matrix = spans.matrix(original.shape[axis], original.dtype)
        result = _spread(xp, result, xp.asarray(matrix), axis)
    return xp.ascontiguousarray(result)


# Projections of images: each place of the result is looked up at another place of the image.
#
# A transform is eight numbers a0 a1 a2 b0 b1 b2 c0 c1: column x and row y of the result come from
#
#     ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k),    k = c0 x + c1 y + 1
#
# and where k is 0 nothing is there.

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


def project_alike(xp: Any, images: Array, transforms: Array, interpolation: bytes) -> Any:
    """Project images (N, H, W, C) to images of their size, 0 where nothing of an image lies."""
    if images.ndim == 4 and not images.size:
        return xp.zeros(images.shape, images.dtype)
    size = to_array(images.shape[1:3])
    return _projected(xp, images, transforms, size, interpolation, b"CONSTANT", images.dtype.type(0))


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
