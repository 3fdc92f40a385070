"""Depthwise convolution and its gradients: one multiply-add a window element over whole rows.

There is no matrix product in it. The input is first split by its place modulo the stride, so that what one
element of the window reads is a run of rows; the window's weights are repeated along a row; and a block of
rows is worked through all elements while it is in cache.
"""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.windows import Windows

#: Output elements worked on at a time.
_BLOCK: Final = 1 << 15


def _phases(image: Array, geometry: Windows) -> dict[tuple[int, int], Array]:
    """One padded image (H, W, C) split by place modulo the strides, each part C-contiguous."""
    down, across = geometry.strides
    if (down, across) == (1, 1):
        return {(0, 0): image}
    return {
        (i, j): np.ascontiguousarray(image[i::down, j::across])
        for i, j in itertools.product(range(down), range(across))
    }


def _row_blocks(geometry: Windows, width: int) -> list[slice]:
    """Output rows to take at a time."""
    rows = geometry.out[0]
    step = max(1, _BLOCK // max(geometry.out[1] * width, 1))
    return [slice(r, min(r + step, rows)) for r in range(0, rows, step)]


def _read(
    phases: dict[tuple[int, int], Array], geometry: Windows, offset: tuple[int, int], rows: slice
) -> Array:
    """What the window element at `offset` reads for some output rows: (rows, W_out, C)."""
    place = [o * d for o, d in zip(offset, geometry.dilations, strict=True)]
    down, across = geometry.strides
    phase = phases[place[0] % down, place[1] % across]
    top, left = place[0] // down, place[1] // across
    return phase[top + rows.start : top + rows.stop, left : left + geometry.out[1]]


def _offsets(geometry: Windows) -> list[tuple[int, int]]:
    height, width = geometry.window
    return list(itertools.product(range(height), range(width)))


def forward(x: Array, filters: Array, geometry: Windows) -> Array:
    """(N, H, W, C) with (H_f, W_f, C, M) to (N, H_out, W_out, C M)."""
    channels, multiplier = filters.shape[2:]
    width = channels * multiplier
    out = np.zeros((x.shape[0], *geometry.out, width), x.dtype)
    if not out.size:
        return out
    # Each channel M times over, and the weights of a whole output row in one vector.
    source = np.repeat(x, multiplier, axis=-1) if multiplier > 1 else x
    padded = geometry.pad(source)
    weights = {o: np.tile(filters[o].reshape(-1), geometry.out[1]) for o in _offsets(geometry)}
    blocks = _row_blocks(geometry, width)
    part = np.empty((blocks[0].stop, geometry.out[1] * width), x.dtype)
    for image, target in zip(padded, out, strict=True):
        phases = _phases(image, geometry)
        for rows in blocks:
            total = target[rows].reshape(rows.stop - rows.start, -1)
            product = part[: total.shape[0]]
            for offset, weight in weights.items():
                view = _read(phases, geometry, offset, rows)
                np.multiply(_runs(view), weight, out=product)
                total += product
    return out


def _runs(view: Array) -> Array:
    """(rows, W, C), each row contiguous, as (rows, W C) without a copy."""
    rows, width, channels = view.shape
    return np.lib.stride_tricks.as_strided(
        view, (rows, width * channels), (view.strides[0], view.strides[2]), writeable=False
    )


def input_gradient(filters: Array, gradient: Array, geometry: Windows) -> Array:
    """(N, H_out, W_out, C M) back to (N, H, W, C)."""
    channels, multiplier = filters.shape[2:]
    padded = np.zeros((gradient.shape[0], *geometry.padded, channels), gradient.dtype)
    if gradient.size:
        gradient = np.ascontiguousarray(gradient)
        split = gradient.reshape(*gradient.shape[:-1], channels, multiplier)
        weights = {o: np.tile(filters[o], (geometry.out[1], 1)) for o in _offsets(geometry)}
        blocks = _row_blocks(geometry, channels)
        down = geometry.strides[0]
        for image, target in zip(split, padded, strict=True):
            for rows in blocks:
                block = image[rows]
                for offset, weight in weights.items():
                    places = geometry.slices(offset)
                    first = places[0].start + rows.start * down
                    lines = slice(first, first + (rows.stop - rows.start - 1) * down + 1, down)
                    target[lines, places[1]] += _spread(block, weight, channels, multiplier)
    return np.ascontiguousarray(geometry.crop(padded))


def _spread(block: Array, weight: Array, channels: int, multiplier: int) -> Array:
    """A block of the gradient (rows, W_out, C, M) times the weights, summed over M."""
    rows, width = block.shape[:2]
    if multiplier == 1:
        product = block.reshape(rows, -1) * weight.reshape(-1)
        return product.reshape(rows, width, channels)
    product = block.reshape(rows, -1, multiplier) * weight
    total: Array = np.add.reduce(product, axis=-1)
    return total.reshape(rows, width, channels)


def filter_gradient(x: Array, gradient: Array, geometry: Windows, multiplier: int) -> Array:
    """The gradient (H_f, W_f, C, M)."""
    channels = x.shape[-1]
    total = np.zeros((*geometry.window, channels, multiplier), x.dtype)
    if gradient.size and x.size:
        source = np.repeat(x, multiplier, axis=-1) if multiplier > 1 else x
        padded = geometry.pad(source)
        gradient = np.ascontiguousarray(gradient)
        blocks = _row_blocks(geometry, channels * multiplier)
        for image, upstream in zip(padded, gradient, strict=True):
            phases = _phases(image, geometry)
            for rows in blocks:
                block = upstream[rows].reshape(rows.stop - rows.start, -1)
                for offset in _offsets(geometry):
                    product = _runs(_read(phases, geometry, offset, rows)) * block
                    sums = np.add.reduce(product.reshape(-1, channels * multiplier), axis=0)
                    total[offset] += sums.reshape(channels, multiplier)
    return total
