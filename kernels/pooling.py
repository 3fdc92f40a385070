"""Maxima and means over sliding windows in any number of spatial dimensions, and their gradients.

Channels come last. A maximum or sum over a window is taken axis by axis (k + k passes instead of k k),
one image at a time so that it stays in cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.windows import Windows


def lowest(dtype: Any) -> Any:
    """What no maximum falls below."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def _lowest_finite(dtype: Any) -> Any:
    return ml_dtypes.finfo(dtype).min


def _offsets(geometry: Windows) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in geometry.window))


def _separable(image: Array, geometry: Windows, combine: Callable[..., Any], out: Array) -> None:
    """Combine the windows of one padded image (*padded, C) into out (*out, C), axis by axis."""
    last = len(geometry.window) - 1
    current = image
    for axis in range(last, -1, -1):
        reach = geometry.dilations[axis]
        step, count = geometry.strides[axis], geometry.out[axis]
        lead = (slice(None),) * axis
        views = [
            current[(*lead, slice(o * reach, o * reach + (count - 1) * step + 1, step))]
            for o in range(geometry.window[axis])
        ]
        target = out if axis == 0 else np.empty(views[0].shape, image.dtype)
        if len(views) == 1:
            np.copyto(target, views[0])
        else:
            combine(views[0], views[1], out=target)
            for view in views[2:]:
                combine(target, view, out=target)
        current = target


def maximum(x: Array, geometry: Windows) -> Array:
    """The greatest of each window of (N, *sizes, C), NaN passed over; returns (N, *out, C)."""
    greater = np.maximum if x.dtype.kind in "iu" else np.fmax
    out = np.empty((x.shape[0], *geometry.out, x.shape[-1]), x.dtype)
    if out.size:
        for image, target in zip(geometry.pad(x, lowest(x.dtype)), out, strict=True):
            _separable(image, geometry, greater, target)
        if greater is np.fmax:
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
    out = np.empty((x.shape[0], *geometry.out, x.shape[-1]), x.dtype)
    if out.size:
        for image, target in zip(geometry.pad(x), out, strict=True):
            _separable(image, geometry, np.add, target)
        np.divide(out, counts(geometry, x.dtype), out=out)
    return out


def mean_gradient(gradient: Array, geometry: Windows) -> Array:
    """The gradient of (N, *sizes, C): each window's spread evenly over its real elements."""
    padded = np.zeros((gradient.shape[0], *geometry.padded, gradient.shape[-1]), gradient.dtype)
    if gradient.size:
        share = gradient / counts(geometry, gradient.dtype)
        for part, target in zip(share, padded, strict=True):
            for offset in _offsets(geometry):
                target[geometry.slices(offset)] += part
    return np.ascontiguousarray(geometry.crop(padded))
