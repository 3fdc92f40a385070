"""Convolution and its two gradients in any number of spatial dimensions, as products of matrices.

Patches of the input are copied into rows of a small matrix that stays in cache, and BLAS multiplies it
by the filter: blocks of whole images, or of rows of one image where an image is large. A window of one
element needs no copy. The gradient of the input is a convolution of the gradient with the mirrored filter
where the stride is 1, and a product whose rows are added back into place otherwise, by planes where the
channels are few (`conv_planes`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from flowengine.core.arrays import Array
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.numpy import conv_planes
from flowengine.kernels.numpy.patch_memory import BLOCK_BYTES, scratch

#: Adding rows back costs about as much as this many times the multiplications.
_MIRROR_RATIO: Final = 1.5
#: Where there are fewer pixels than this many times the filter's width, mirroring the filter costs too much.
_PIXELS_MIN: Final = 2
#: Rows of patches that a product should have at least: BLAS packs the filter anew for each.
_ROWS_MIN: Final = 384


def _blocks(count: int, geometry: Windows, row_bytes: int) -> Iterator[tuple[slice, slice]]:
    """(images, output rows) to take at a time so that `row_bytes` a pixel fit a block."""
    rows = geometry.out[0]
    pixels = 1
    for n in geometry.out[1:]:
        pixels *= n
    block = max(BLOCK_BYTES, _ROWS_MIN * row_bytes)
    if rows * pixels * row_bytes <= block or rows <= 1:
        images = max(1, block // max(rows * pixels * row_bytes, 1))
        for start in range(0, count, images):
            yield slice(start, min(start + images, count)), slice(0, rows)
        return
    step = max(1, block // max(pixels * row_bytes, 1))
    for image in range(count):
        for start in range(0, rows, step):
            yield slice(image, image + 1), slice(start, min(start + step, rows))


def _columns(patches: Array, depth: int) -> Array:
    """Patches (n, *out, *window, C) copied to the rows of a matrix (pixels, depth)."""
    matrix = scratch(patches.size, patches.dtype)
    np.copyto(matrix.reshape(patches.shape), patches)
    return matrix.reshape(-1, depth)


def _pointwise(x: Array, geometry: Windows) -> Array:
    """The elements that windows of one element read, as rows (pixels, C)."""
    if any(s != 1 for s in geometry.strides):
        x = x[(slice(None), *geometry.slices((0,) * len(geometry.out)))]
    return np.ascontiguousarray(x).reshape(-1, x.shape[-1])


def forward(x: Array, filters: Array, geometry: Windows) -> Array:
    """Convolve (N, *sizes, C_in) with (*window, C_in, C_out); returns (N, *out, C_out)."""
    depth = filters.size // filters.shape[-1] if filters.size else 0
    out = np.empty((x.shape[0], *geometry.out, filters.shape[-1]), x.dtype)
    if out.size == 0:
        return out
    if depth == 0:
        out.fill(0)
        return out
    matrix = np.ascontiguousarray(filters).reshape(depth, -1)
    if geometry.is_pointwise:
        np.dot(_pointwise(x, geometry), matrix, out=out.reshape(-1, out.shape[-1]))
        return out
    patches = geometry.patches(np, geometry.pad(np, x))
    for images, rows in _blocks(x.shape[0], geometry, depth * x.itemsize):
        target = out[images, rows]
        np.dot(_columns(patches[images, rows], depth), matrix, out=target.reshape(-1, target.shape[-1]))
    return out


def filter_gradient(x: Array, gradient: Array, geometry: Windows) -> Array:
    """The gradient (*window, C_in, C_out) from x (N, *sizes, C_in) and (N, *out, C_out)."""
    channels, width = x.shape[-1], gradient.shape[-1]
    shape = (*geometry.window, channels, width)
    depth = channels
    for n in geometry.window:
        depth *= n
    if gradient.size == 0 or x.size == 0:
        return np.zeros(shape, x.dtype)
    gradient = np.ascontiguousarray(gradient)
    if geometry.is_pointwise:
        product: Array = np.dot(_pointwise(x, geometry).T, gradient.reshape(-1, width))
        return product.reshape(shape)
    total = np.zeros((depth, width), x.dtype)
    part = np.empty_like(total)
    patches = geometry.patches(np, geometry.pad(np, x))
    for images, rows in _blocks(x.shape[0], geometry, depth * x.itemsize):
        columns = _columns(patches[images, rows], depth)
        np.dot(columns.T, gradient[images, rows].reshape(-1, width), out=part)
        total += part
    return total.reshape(shape)


def input_gradient(filters: Array, gradient: Array, geometry: Windows) -> Array:
    """The gradient (N, *sizes, C_in) from filters and (N, *out, C_out)."""
    if geometry.is_pointwise and all(s == 1 for s in geometry.strides) and gradient.size:
        # BLAS reads the filter transposed: no mirrored copy of it is needed.
        rows = np.ascontiguousarray(gradient).reshape(-1, gradient.shape[-1])
        product: Array = np.dot(rows, filters.reshape(filters.shape[-2:]).T)
        return product.reshape(*gradient.shape[:-1], -1)
    mirrored = _mirrored(geometry)
    pixels = gradient.size // max(gradient.shape[-1], 1)
    if mirrored is not None and pixels >= _PIXELS_MIN * gradient.shape[-1]:
        flipped = filters[tuple(slice(None, None, -1) for _ in geometry.window)]
        return forward(gradient, np.swapaxes(flipped, -1, -2), mirrored)
    return _scattered(filters, gradient, geometry)


def _mirrored(geometry: Windows) -> Windows | None:
    """The windows by which a convolution of the gradient gives the input's.

    None for other strides, and where the input is so much larger than the output that most of what such a
    convolution multiplied would be padding.
    """
    if any(s != 1 for s in geometry.strides):
        return None
    if np.prod(geometry.sizes) > _MIRROR_RATIO * np.prod(geometry.out):
        return None
    reach = [(w - 1) * d for w, d in zip(geometry.window, geometry.dilations, strict=True)]
    before = tuple(r - b for r, b in zip(reach, geometry.before, strict=True))
    after = tuple(r - a for r, a in zip(reach, geometry.after, strict=True))
    if min(before) < 0 or min(after) < 0 or 0 in geometry.out:
        return None
    return replace(geometry, sizes=geometry.out, before=before, after=after, out=geometry.sizes)


def _runs(geometry: Windows) -> Iterator[tuple[tuple[int, ...], int]]:
    """(first offset, length) of the runs of window elements that are added back at once.

    Along the last axis, as many neighbours as the length of the stride fall on different places.
    """
    last, step = geometry.window[-1], geometry.strides[-1] if geometry.dilations[-1] == 1 else 1
    for lead in itertools.product(*(range(n) for n in geometry.window[:-1])):
        for start in range(0, last, step):
            yield (*lead, start), min(step, last - start)


def _run_view(padded: Array, geometry: Windows, rows: int, first: tuple[int, ...], run: int) -> Array:
    """Return the input of a run of window elements for some rows of windows, as a writable view.

    Its shape is (images, rows, ..., run C).

    first   padded row of the first window's element, then its offsets along the other axes
    """
    spread = (1, *geometry.dilations[1:])
    start = padded[(slice(None), *(slice(f * d, None) for f, d in zip(first, spread, strict=True)))]
    steps = (s * b for s, b in zip(geometry.strides, padded.strides[1:-1], strict=True))
    return as_strided(
        start,
        (padded.shape[0], rows, *geometry.out[1:], run * padded.shape[-1]),
        (padded.strides[0], *steps, padded.strides[-1]),
    )


def _scattered(filters: Array, gradient: Array, geometry: Windows) -> Array:
    count, channels = gradient.shape[0], filters.shape[-2]
    padded = np.zeros((count, *geometry.padded, channels), gradient.dtype)
    if gradient.size == 0 or filters.size == 0:
        return np.ascontiguousarray(geometry.crop(padded))
    gradient = np.ascontiguousarray(gradient)
    if conv_planes.serves(geometry, channels):
        return conv_planes.input_gradient(filters, gradient, geometry)
    depth = filters.size // filters.shape[-1]
    matrix = filters.reshape(depth, -1).T
    window = geometry.window
    lead = geometry.strides[0]
    for images, rows in _blocks(count, geometry, depth * gradient.itemsize):
        block = gradient[images, rows]
        columns = scratch(block.size // block.shape[-1] * depth, gradient.dtype).reshape(-1, depth)
        np.dot(block.reshape(-1, block.shape[-1]), matrix, out=columns)
        patches = columns.reshape(*block.shape[:-1], *window, channels)
        for offset, run in _runs(geometry):
            first = (offset[0] * geometry.dilations[0] + rows.start * lead, *offset[1:])
            target = _run_view(padded[images], geometry, block.shape[1], first, run)
            index = (slice(None),) * (1 + len(window)) + offset[:-1]
            target += patches[(*index, slice(offset[-1], offset[-1] + run))].reshape(target.shape)
    return np.ascontiguousarray(geometry.crop(padded))
