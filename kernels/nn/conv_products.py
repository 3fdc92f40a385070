"""Convolution and its gradients for any array module, as one product of matrices or sums over the window.

This is the plain way: patches of the whole batch are copied into the rows of one matrix. A library that has
convolutions of its own stands in front of it, and so does NumPy, which takes blocks (`kernels/numpy`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from flowengine.core.arrays import Array
from flowengine.kernels.common.windows import Windows


def _offsets(geometry: Windows) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in geometry.window))


class Products:
    """Convolutions of (N, *sizes, C_in) with (*window, C_in, C_out) by arrays of `xp`."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def _rows(self, x: Array, geometry: Windows, depth: int) -> Any:
        """Return each window's input as the rows of a matrix (pixels, depth)."""
        patches = geometry.patches(self._xp, geometry.pad(self._xp, x))
        return patches.reshape(-1, depth)

    def forward(self, x: Array, filters: Array, geometry: Windows) -> Any:
        """The convolution, (N, *out, C_out)."""
        shape = (x.shape[0], *geometry.out, filters.shape[-1])
        if not math.prod(shape) or not filters.size:
            return self._xp.zeros(shape, x.dtype)
        matrix = filters.reshape(-1, filters.shape[-1])
        return self._xp.dot(self._rows(x, geometry, len(matrix)), matrix).reshape(shape)

    def filter_gradient(self, x: Array, gradient: Array, geometry: Windows) -> Any:
        """The gradient (*window, C_in, C_out) from x and (N, *out, C_out)."""
        shape = (*geometry.window, x.shape[-1], gradient.shape[-1])
        if not gradient.size or not x.size:
            return self._xp.zeros(shape, x.dtype)
        rows = self._rows(x, geometry, math.prod(shape[:-1]))
        return self._xp.dot(rows.T, gradient.reshape(-1, shape[-1])).reshape(shape)

    def input_gradient(self, filters: Array, gradient: Array, geometry: Windows) -> Any:
        """The gradient (N, *sizes, C_in) from filters and (N, *out, C_out)."""
        channels, width = filters.shape[-2:]
        padded = self._xp.zeros((gradient.shape[0], *geometry.padded, channels), gradient.dtype)
        if gradient.size and filters.size:
            columns = self._xp.dot(gradient.reshape(-1, width), filters.reshape(-1, width).T)
            patches = columns.reshape(*gradient.shape[:-1], *geometry.window, channels)
            every = (slice(None),) * (1 + len(geometry.out))
            for offset in _offsets(geometry):
                padded[(slice(None), *geometry.slices(offset))] += patches[(*every, *offset)]
        return self._xp.ascontiguousarray(geometry.crop(padded))


class DepthwiseProducts:
    """Convolutions of every channel of (N, H, W, C) with filters of its own (H_f, W_f, C, M)."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def _read(self, padded: Array, geometry: Windows, offset: tuple[int, ...]) -> Any:
        """Return one element of every window's input, (N, H_out, W_out, C, 1)."""
        return padded[(slice(None), *geometry.slices(offset))][..., None]

    def forward(self, x: Array, filters: Array, geometry: Windows) -> Any:
        """The convolution, (N, H_out, W_out, C M)."""
        padded = geometry.pad(self._xp, x)
        total = self._xp.zeros((x.shape[0], *geometry.out, *filters.shape[2:]), x.dtype)
        for offset in _offsets(geometry):
            total += self._read(padded, geometry, offset) * filters[offset]
        return total.reshape(x.shape[0], *geometry.out, math.prod(filters.shape[2:]))

    def input_gradient(self, filters: Array, gradient: Array, geometry: Windows) -> Any:
        """(N, H_out, W_out, C M) back to (N, H, W, C)."""
        channels, multiplier = filters.shape[2:]
        padded = self._xp.zeros((gradient.shape[0], *geometry.padded, channels), gradient.dtype)
        upstream = gradient.reshape(*gradient.shape[:3], channels, multiplier)
        for offset in _offsets(geometry):
            part = (upstream * filters[offset]).sum(-1)
            padded[(slice(None), *geometry.slices(offset))] += part
        return self._xp.ascontiguousarray(geometry.crop(padded))

    def filter_gradient(self, x: Array, gradient: Array, geometry: Windows, multiplier: int) -> Any:
        """The gradient (H_f, W_f, C, M)."""
        channels = x.shape[-1]
        padded = geometry.pad(self._xp, x)
        upstream = gradient.reshape(*gradient.shape[:3], channels, multiplier)
        result = self._xp.zeros((*geometry.window, channels, multiplier), x.dtype)
        for offset in _offsets(geometry):
            result[offset] = (self._read(padded, geometry, offset) * upstream).sum((0, 1, 2))
        return result


__all__ = ["DepthwiseProducts", "Products"]
