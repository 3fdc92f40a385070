"""Maxima and means over sliding windows in any number of spatial dimensions, and their gradients.

Channels come last. A maximum or sum over a window is taken axis by axis (k + k passes instead of k k),
one image at a time so that it stays in cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import as_dtype
from flowengine.kernels.windows import Windows


def lowest(dtype: Any) -> Any:
    """What no maximum falls below."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def _lowest_finite(dtype: Any) -> Any:
    return as_dtype(dtype).min


def _offsets(geometry: Windows) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in geometry.window))


def _along(x: Array, axis: int, geometry: Windows, combine: Callable[..., Any], fill: Any) -> Array:
    """Combine the windows along one axis of one unpadded image; what lies outside does not count.

    axis counts the spatial axes from 0, which are the image's first; `fill` is for a window with nothing.
    """
    size, count = x.shape[axis], geometry.out[axis]
    step, before = geometry.strides[axis], geometry.before[axis]
    lead = (slice(None),) * axis
    parts = []
    for offset in range(geometry.window[axis]):
        shift = offset * geometry.dilations[axis] - before
        low = max(0, -(shift // step))
        high = min(count, (size - 1 - shift) // step + 1)
        if high > low:
            source = x[(*lead, slice(low * step + shift, (high - 1) * step + shift + 1, step))]
            parts.append((low, high, source))
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    whole = [source for low, high, source in parts if low == 0 and high == count]
    edges = [part for part in parts if part[0] != 0 or part[1] != count]
    result = np.empty(shape, x.dtype)
    if len(whole) >= 2:
        combine(whole[0], whole[1], out=result)
    elif whole:
        np.copyto(result, whole[0])
    else:
        result.fill(fill)
    for source in whole[2:]:
        combine(result, source, out=result)
    for low, high, source in edges:
        target = result[(*lead, slice(low, high))]
        combine(target, source, out=target)
    return result


def _separable(x: Array, geometry: Windows, combine: Callable[..., Any], fill: Any) -> Array:
    """Combine the windows of (N, *sizes, C), image by image and, within it, axis by axis: (N, *out, C)."""
    out = np.empty((x.shape[0], *geometry.out, x.shape[-1]), x.dtype)
    for image, target in zip(x, out, strict=True):
        current = image
        # The first axis first: its passes run along whole rows and leave less for the others.
        for axis in range(len(geometry.window)):
            current = _along(current, axis, geometry, combine, fill)
        target[...] = current
    return out


def maximum(x: Array, geometry: Windows) -> Array:
    """The greatest of each window of (N, *sizes, C), NaN passed over; returns (N, *out, C)."""
    greater = np.maximum if x.dtype.kind in "iu" else np.fmax
    out = _separable(x, geometry, greater, lowest(x.dtype))
    if greater is np.fmax and out.size and np.isnan(out.max()):
        # Of nothing but NaN the greatest is the lowest number.
        np.copyto(out, _lowest_finite(x.dtype), where=np.isnan(out))
    return out


def maximum_gradient(x: Array, greatest: Array, gradient: Array, geometry: Windows) -> Array:
    """The gradient of (N, *sizes, C): that of each window goes to the first of its greatest elements.

    A NaN that comes first in its window counts as the greatest, another one as none.
    """
    if x.dtype.kind not in "iu" and np.isnan(x).any():
        return _maximum_gradient_by_position(x, gradient, geometry)
    padded = np.zeros((x.shape[0], *geometry.padded, x.shape[-1]), gradient.dtype)
    if gradient.size:
        zero = gradient.dtype.type(0)
        framed = geometry.pad(x, lowest(x.dtype))
        for image, top, g, target in zip(framed, greatest, gradient, padded, strict=True):
            open_ = np.ones(top.shape, bool)
            for offset in _offsets(geometry):
                places = geometry.slices(offset)
                hit = image[places] == top
                hit &= open_
                target[places] += np.where(hit, g, zero)
                open_ ^= hit
    return np.ascontiguousarray(geometry.crop(padded))


def _maximum_gradient_by_position(x: Array, gradient: Array, geometry: Windows) -> Array:
    result = np.zeros((x.shape[0], int(np.prod(x.shape[1:]))), gradient.dtype)
    place = maximum_with_position(x, geometry)[1]
    for target, where, part in zip(result, place, gradient, strict=True):
        np.add.at(target, where.reshape(-1), part.reshape(-1))
    return result.reshape(x.shape)


def maximum_with_position(x: Array, geometry: Windows) -> tuple[Array, Array]:
    """The greatest of each window and where it lies, as an index into one flattened image (int64)."""
    shape = (x.shape[0], *geometry.out, x.shape[-1])
    best = np.full(shape, lowest(x.dtype), x.dtype)
    place = np.full(shape, -1, np.int64)
    positions = np.arange(int(np.prod(x.shape[1:])), dtype=np.int64).reshape(x.shape[1:])
    framed = geometry.pad(x, lowest(x.dtype))
    index = geometry.pad(positions[None], -1)[0]
    for offset in _offsets(geometry):
        places = geometry.slices(offset)
        value, where = framed[(slice(None), *places)], index[places]
        better = (value > best) | (place < 0)
        better &= where >= 0
        np.copyto(best, value, where=better)
        np.copyto(place, np.broadcast_to(where, shape), where=better)
    return best, place


def counts(geometry: Windows, dtype: Any) -> Array:
    """How many real elements each window has: (*out, 1)."""
    result = np.ones((1,) * (len(geometry.out) + 1), dtype)
    for axis, size in enumerate(geometry.sizes):
        start = np.arange(geometry.out[axis]) * geometry.strides[axis] - geometry.before[axis]
        stop = np.minimum(start + geometry.window[axis], size)
        shape = [1] * (len(geometry.out) + 1)
        shape[axis] = -1
        result = result * (stop - np.maximum(start, 0)).astype(dtype).reshape(shape)
    return result


def mean(x: Array, geometry: Windows) -> Array:
    """The mean of each window's real elements; (N, *out, C)."""
    out = _separable(x, geometry, np.add, 0)
    if out.size:
        np.divide(out, counts(geometry, x.dtype), out=out)
    return out


def mean_gradient(gradient: Array, geometry: Windows) -> Array:
    """The gradient of (N, *sizes, C): each window's spread evenly over its real elements."""
    if not gradient.size:
        return np.zeros((gradient.shape[0], *geometry.sizes, gradient.shape[-1]), gradient.dtype)
    # Spread along one axis after the other, the last first: there is least to spread then.
    current = gradient / counts(geometry, gradient.dtype)
    for axis in range(len(geometry.window) - 1, -1, -1):
        shape = list(current.shape)
        shape[axis + 1] = geometry.padded[axis]
        spread = np.zeros(shape, gradient.dtype)
        lead = (slice(None),) * (axis + 1)
        step, count = geometry.strides[axis], geometry.out[axis]
        for offset in range(geometry.window[axis]):
            spread[(*lead, slice(offset, offset + (count - 1) * step + 1, step))] += current
        before = geometry.before[axis]
        current = spread[(*lead, slice(before, before + geometry.sizes[axis]))]
    return np.ascontiguousarray(current)
