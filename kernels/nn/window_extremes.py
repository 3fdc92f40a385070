"""Maxima and means over sliding windows for any array module, and their gradients. Channels come last.

This is the plain way: one pass over the outputs for each element of the window. NumPy takes windows axis by
axis and block by block (`kernels/numpy/window_extremes.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import as_dtype
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.common.windows import Windows


def lowest(dtype: Any) -> Any:
    """Return the least value of a type, below which no maximum falls."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def _offsets(geometry: Windows) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in geometry.window))


def offset_by_image(xp: Any, place: Array, image_size: int) -> Any:
    """Places in one image each as places in all of them."""
    images = xp.arange(place.shape[0], dtype=np.int64) * image_size
    return place + images.reshape(-1, *(1,) * (place.ndim - 1))


def maximum_with_position(xp: Any, x: Array, geometry: Windows) -> tuple[Any, Any]:
    """The greatest of each window and where it lies, as an index into one flattened image (int64)."""
    shape = (x.shape[0], *geometry.out, x.shape[-1])
    best = xp.full(shape, lowest(x.dtype), x.dtype)
    place = xp.full(shape, -1, np.int64)
    positions = xp.arange(math.prod(x.shape[1:]), dtype=np.int64).reshape(x.shape[1:])
    framed = geometry.pad(xp, x, lowest(x.dtype))
    index = geometry.pad(xp, positions[None], -1)[0]
    for offset in _offsets(geometry):
        places = geometry.slices(offset)
        value, where = framed[(slice(None), *places)], index[places]
        better = (value > best) | (place < 0)
        better &= where >= 0
        xp.copyto(best, value, where=better)
        xp.copyto(place, xp.broadcast_to(where, shape), where=better)
    return best, place


def counts(xp: Any, geometry: Windows, dtype: Any) -> Any:
    """How many real elements each window has: (*out, 1)."""
    result = xp.ones((1,) * (len(geometry.out) + 1), dtype)
    for axis, size in enumerate(geometry.sizes):
        start = xp.arange(geometry.out[axis]) * geometry.strides[axis] - geometry.before[axis]
        stop = xp.minimum(start + geometry.window[axis], size)
        shape = [1] * (len(geometry.out) + 1)
        shape[axis] = -1
        result = result * (stop - xp.maximum(start, 0)).astype(dtype).reshape(shape)
    return result


class WindowReductions:
    """Maxima and means of the windows of (N, *sizes, C) by arrays of `xp`."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def maximum(self, x: Array, geometry: Windows) -> Any:
        """The greatest of each window, NaN passed over; (N, *out, C)."""
        xp = self._xp
        shape = (x.shape[0], *geometry.out, x.shape[-1])
        is_whole = x.dtype.kind in "iu"
        # A NaN is passed over, so that it is what nothing falls below.
        nothing = lowest(x.dtype) if is_whole else x.dtype.type(np.nan)
        framed = geometry.pad(xp, x, nothing)
        best = xp.full(shape, nothing, x.dtype)
        greater = xp.maximum if is_whole else xp.fmax
        for offset in _offsets(geometry):
            greater(best, framed[(slice(None), *geometry.slices(offset))], out=best)
        # Of nothing but NaN the greatest is the lowest number.
        return best if is_whole else xp.where(xp.isnan(best), x.dtype.type(as_dtype(x.dtype).min), best)

    def maximum_gradient(self, x: Array, gradient: Array, geometry: Windows) -> Any:
        """The gradient of (N, *sizes, C): that of each window goes to the first of its greatest elements."""
        xp = self._xp
        image = math.prod(x.shape[1:])
        result = xp.zeros(x.shape[0] * image, gradient.dtype)
        place = offset_by_image(xp, maximum_with_position(xp, x, geometry)[1], image)
        add_rows(xp, result, place.reshape(-1), gradient.reshape(-1))
        return result.reshape(x.shape)

    def maximum_with_position(self, x: Array, geometry: Windows) -> tuple[Any, Any]:
        """See the function of this name."""
        return maximum_with_position(self._xp, x, geometry)

    def mean(self, x: Array, geometry: Windows) -> Any:
        """The mean of each window's real elements; (N, *out, C)."""
        xp = self._xp
        padded = geometry.pad(xp, x)
        total = xp.zeros((x.shape[0], *geometry.out, x.shape[-1]), x.dtype)
        for offset in _offsets(geometry):
            total += padded[(slice(None), *geometry.slices(offset))]
        return total / counts(xp, geometry, x.dtype)

    def mean_gradient(self, gradient: Array, geometry: Windows) -> Any:
        """The gradient of (N, *sizes, C): each window's spread evenly over its real elements."""
        xp = self._xp
        padded = xp.zeros((gradient.shape[0], *geometry.padded, gradient.shape[-1]), gradient.dtype)
        share = gradient / counts(xp, geometry, gradient.dtype)
        for offset in _offsets(geometry):
            padded[(slice(None), *geometry.slices(offset))] += share
        return xp.ascontiguousarray(geometry.crop(padded))


__all__ = ["WindowReductions", "counts", "lowest", "maximum_with_position", "offset_by_image"]
