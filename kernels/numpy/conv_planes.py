"""The gradient of an image of few channels: the input of a network's first layer.

With three channels the rows that a window reads are too short for additions to be worth entering. The
gradient is gathered in planes instead, one for each channel and place modulo the strides: what one element
of the window reads is a piece of a plane with long rows, and a row of the product that BLAS makes. The
planes are put together at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.kernels.common.parallel import spread
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.numpy.patch_memory import BLOCK_BYTES, scratch

#: (a, b, out): see `input_gradient`.
Product: TypeAlias = Callable[[Array, Array, Array], None]

#: Up to this many channels planes are quicker than patches.
_CHANNELS_MAX: Final = 4
#: Output columns from which a row of a plane is worth a copy.
_COLUMNS_MIN: Final = 8


def serves(geometry: Windows, channels: int) -> bool:
    """Whether the gradient should be gathered in planes: two dimensions, few channels, no holes."""
    return (
        len(geometry.window) == 2
        and channels <= _CHANNELS_MAX
        and geometry.dilations == (1, 1)
        and geometry.out[1] >= _COLUMNS_MIN
        and geometry.out[0] > 0
        and geometry.window != (1, 1)
    )


class _Planes:
    """Planes (C, rows stride, columns stride, H, W) of an image of these windows."""

    def __init__(self, geometry: Windows, channels: int, dtype: Any) -> None:
        down, across = geometry.strides
        height, width = geometry.padded
        self.geometry = geometry
        # As far as the last window reaches, and in whole strides.
        high, wide = (
            max(-(-size // step), count - 1 + -(-window // step))
            for size, step, count, window in zip(
                (height, width), geometry.strides, geometry.out, geometry.window, strict=True
            )
        )
        self.framed = np.zeros((high * down, wide * across, channels), dtype)
        self.planes = np.zeros((channels, down, across, high, wide), dtype)

    def _turned(self) -> Array:
        """The frame seen as planes."""
        down, across = self.geometry.strides
        high, wide = self.planes.shape[3:]
        return self.framed.reshape(high, down, wide, across, -1).transpose(4, 1, 3, 0, 2)

    def _inside(self) -> Array:
        return self.framed[self.geometry.interior()]

    def store(self, image: Array) -> None:
        """Put the planes together into (H, W, C)."""
        np.copyto(self._turned(), self.planes)
        image[...] = self._inside()

    def pieces(self, rows: slice) -> Iterator[Array]:
        """Yield the input of each window element for some output rows: (C, rows, columns), in order."""
        down, across = self.geometry.strides
        columns = self.geometry.out[1]
        for i, j in itertools.product(*(range(n) for n in self.geometry.window)):
            top, left = i // down + rows.start, j // across
            yield self.planes[
                :, i % down, j % across, top : top + rows.stop - rows.start, left : left + columns
            ]


def _blocks(geometry: Windows, depth: int, itemsize: int) -> list[slice]:
    """Output rows at a time, so that a matrix of `depth` rows stays in cache."""
    rows = geometry.out[0]
    step = max(1, BLOCK_BYTES // max(depth * geometry.out[1] * itemsize, 1))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def input_gradient(
    filters: Array, gradient: Array, geometry: Windows, product: Product | None = None
) -> Array:
    """The gradient (N, H, W, C_in) from the filters and (N, H_out, W_out, C_out), C-contiguous.

    product   (a, b, out): out = a b^T on the calling thread alone; images are then spread over the cores
    """
    channels, width = filters.shape[-2:]
    matrix = np.ascontiguousarray(filters).reshape(-1, width)
    depth = matrix.shape[0]
    blocks = _blocks(geometry, depth, gradient.itemsize)
    result: Array = empty((gradient.shape[0], *geometry.sizes, channels), gradient.dtype)
    multiply = product or _multiply

    def image(number: int) -> None:
        planes = _Planes(geometry, channels, gradient.dtype)
        for rows in blocks:
            pixels = gradient[number, rows].reshape(-1, width)
            columns = scratch(depth * pixels.shape[0], gradient.dtype).reshape(depth, -1)
            multiply(matrix, pixels, columns)
            parts = columns.reshape(-1, channels, rows.stop - rows.start, geometry.out[1])
            for part, piece in zip(parts, planes.pieces(rows), strict=True):
                piece += part
        planes.store(result[number])

    if product is not None:
        spread(image, len(gradient))
    else:
        for number in range(len(gradient)):
            image(number)
    return result


def _multiply(a: Array, b: Array, out: Array) -> None:
    np.dot(a, b.T, out=out)
