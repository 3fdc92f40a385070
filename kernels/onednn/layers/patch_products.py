"""Convolutions of a few pixels an image by large filters: products of matrices, once patches are made.

The library convolves image by image and reads the filters anew for each. Filters that the second cache does
not hold then take longer to read than to multiply: 32 x 2 x 2 x 512 by windows of 3 x 3 takes 13 ms, the
product 4. Patches of so few pixels are soon made. The gradient of such filters gains for any image where
there are few patches in all, as it is written once and not brought into another order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import aligned
from flowengine.kernels.common.pieces import Piece, Source, Want
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.onednn.layers.conv_products import ConvolutionProduct
from flowengine.kernels.onednn.layers.shapes import Layer, WindowAttributes

#: Bytes of filters from which a core's second cache does not hold them.
_LARGE: Final = 2 << 20
#: Pixels of an image's output up to which its convolution waits for filters, however many images there are,
#: if filters have so many bytes for each; and up to which it does for no more than `_FEW` pixels in all.
_PIXELS: Final = 9
_BYTES_FOR_EACH: Final = 512 << 10
_PIXELS_OF_FEW: Final = 16
_FEW: Final = 128
#: Patches are made of no more pixels than these, nor with larger windows or more outputs: those were not
#: measured.
_PIXELS_MAX: Final = 2048
_WINDOW_MAX: Final = 25
_OUTPUTS_MAX: Final = 1024


def are_quicker(geometry: Windows, images: int, filter_bytes: int, of_filters: bool) -> bool:
    """Whether a product of patches takes less than the library's convolution.

    of_filters   whether it is for the gradient of the filters
    """
    pixels = math.prod(geometry.out)
    rows = images * pixels
    if filter_bytes < _LARGE or rows > _PIXELS_MAX or not 1 < math.prod(geometry.window) <= _WINDOW_MAX:
        return False
    return (
        (1 < pixels <= _PIXELS and pixels * _BYTES_FOR_EACH <= filter_bytes)
        or (rows <= _FEW and 1 < pixels <= _PIXELS_OF_FEW)
        or (rows <= _FEW and of_filters)
    )


class PatchProduct(ConvolutionProduct):
    """A convolution of these windows as a product of patches (N H_out W_out, H_f W_f C_in)."""

    def __init__(
        self,
        geometry: Windows,
        x: tuple[int, ...],
        w: tuple[int, ...],
        output: tuple[int, ...],
        forms: tuple[str, ...],
    ) -> None:
        rows, depth = math.prod(output[:3]), math.prod(w[:3])
        super().__init__((rows, depth, w[3]), (rows, depth), w, output, forms)
        self._geometry = geometry
        self._parts = (x[0], *geometry.out, *w[:3])

    def _patches(self, x: Array) -> Array:
        patches = aligned(self._parts, np.float32)
        np.copyto(patches, self._geometry.patches(np, self._geometry.pad(np, x)))
        return patches

    def forward(self, x: Array, w: Array, *operands: Array) -> Array:
        return super().forward(self._patches(x), w, *operands)

    def piece(self, x: Array, w: Array, operands: Sequence[Source], wants: Sequence[Want]) -> Piece | None:
        return None  # patches are made first

    def input_gradient(self, w: Array, gradient: Array) -> Array:
        parts = super().input_gradient(w, gradient).reshape(self._parts)
        geometry = self._geometry
        padded: Array = np.zeros((len(parts), *geometry.padded, parts.shape[-1]), np.float32)
        for i, j in itertools.product(*map(range, geometry.window)):
            padded[(slice(None), *geometry.slices((i, j)))] += parts[:, :, :, i, j]
        return np.ascontiguousarray(geometry.crop(padded))

    def filter_gradient(self, x: Array, gradient: Array) -> Array:
        return super().filter_gradient(self._patches(x), gradient)


def as_patches(
    sliding: WindowAttributes,
    x: tuple[int, ...],
    w: tuple[int, ...],
    forms: tuple[str, ...] = (),
    of_filters: bool = False,
) -> PatchProduct | None:
    """The convolution as a product of patches, where that is quicker; LibraryError where it does not fit."""
    if not may_be_patches(sliding, w):
        return None
    layer = Layer(sliding, x, w)
    return PatchProduct(layer.geometry, x, w, layer.output, forms) if suits(layer, of_filters) else None


def may_be_patches(sliding: WindowAttributes, w: tuple[int, ...]) -> bool:
    """Whether patches are worth a thought for filters of this shape."""
    if sliding.first or sliding.depthwise:
        return False
    return 4 * math.prod(w) >= _LARGE and w[-1] <= _OUTPUTS_MAX


def suits(layer: Layer, of_filters: bool) -> bool:
    """Whether a product of patches takes less than the library's convolution."""
    x, w = layer.input, layer.filter_shape
    return x[3] == w[2] and are_quicker(layer.geometry, x[0], 4 * math.prod(w), of_filters)
