"""Convolutions that multiply the input as it lies, by few rows: those are products of matrices."""

from __future__ import annotations

from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.kernels.onednn.layers import Sliding
from flowengine.kernels.onednn.library import LibraryError
from flowengine.kernels.onednn.products import SMALL, multiply

#: Rows up to which a convolution that is a product of matrices is computed as one: to bring the filters
#: into order would take longer than to use them.
_FEW_ROWS: Final = 64


def product_sizes(
    sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...]
) -> tuple[int, int, int, tuple[int, ...]] | None:
    """(rows, depth, columns, output shape) of a convolution that only multiplies the input as it lies.

    That is one with windows of one element, or with one window that is as large as the input.
    """
    if sliding.first or sliding.depthwise or len(x) != 4 or len(w) != 4 or 0 in x or 0 in w:
        return None
    if x[3] != w[2] or sliding.padding == b"EXPLICIT":
        return None
    if w[:2] == (1, 1):
        if sliding.strides != (1, 1, 1, 1):
            return None
        return x[0] * x[1] * x[2], x[3], w[3], (*x[:3], w[3])
    if sliding.padding == b"VALID" and w[:2] == x[1:3] and sliding.dilations == (1, 1, 1, 1):
        return x[0], x[1] * x[2] * x[3], w[3], (x[0], 1, 1, w[3])
    return None


class Product:
    """A convolution that is a product of few rows."""

    def __init__(
        self,
        sizes: tuple[int, int, int],
        x: tuple[int, ...],
        w: tuple[int, ...],
        output: tuple[int, ...],
    ) -> None:
        self._rows, self._depth, self._columns = sizes
        self.input, self.filters, self.output = x, w, output

    def forward(self, x: Array, w: Array) -> Array:
        out: Array = empty((self._rows, self._columns), np.float32)
        a, b = x.reshape(self._rows, self._depth), w.reshape(self._depth, self._columns)
        return multiply(a, b, out).reshape(self.output)

    def input_gradient(self, w: Array, gradient: Array) -> Array:
        out: Array = empty((self._rows, self._depth), np.float32)
        a, b = gradient.reshape(self._rows, self._columns), w.reshape(self._depth, self._columns)
        return multiply(a, b, out, False, True).reshape(self.input)

    def filter_gradient(self, x: Array, gradient: Array) -> Array:
        out: Array = empty((self._depth, self._columns), np.float32)
        a, b = x.reshape(self._rows, self._depth), gradient.reshape(self._rows, self._columns)
        return multiply(a, b, out, True, False).reshape(self.filters)


def as_product(sliding: Sliding, x: tuple[int, ...], w: tuple[int, ...]) -> Product | None:
    """The convolution as a product of few rows, if it is one; LibraryError if NumPy's is as quick."""
    sizes = product_sizes(sliding, x, w)
    if sizes is None:
        return None
    rows, depth, columns, output = sizes
    if rows * depth * columns <= SMALL:
        raise LibraryError("a product that is too small")
    return Product((rows, depth, columns), x, w, output) if rows <= _FEW_ROWS else None
