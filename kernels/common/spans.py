"""Which elements of an axis are mixed where more than two neighbours are, and how much of each.

A span is the run of elements that one output element is made of. All spans of an axis are of one length; what
does not count has weight 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

HOST: Final = "small tables that follow from sizes, made once in host memory and taken to the device"

#: Weights whose sum is smaller than this are not brought to a sum of 1.
_SUM_MIN: Final = 1000 * float(np.finfo(np.float32).tiny)
_TABLE: Final = 1024


@dataclass(frozen=True, slots=True)
class SpanWeights:
    """indices   (out, span) int64, within the axis
    weights   (out, span) float32
    """

    indices: Array
    weights: Array

    def matrix(self, size: int, dtype: Any) -> Array:
        """(size, out): its transpose resizes an axis, and it spreads a gradient back."""
        out, span = self.indices.shape
        matrix = np.zeros((size, out), dtype)
        steps = np.arange(out).repeat(span)
        np.add.at(matrix, (self.indices.reshape(-1), steps), self.weights.reshape(-1).astype(dtype))
        return matrix


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def lanczos(x: Array) -> Array:
        far = np.pi * np.maximum(x, 1e-3)
        waves = radius * np.sin(far) * np.sin(far / radius) / (far * far)
        return np.where(x > radius, 0.0, np.where(x <= 1e-3, 1.0, waves))

    return lanczos


def _keys(x: Array) -> Array:
    near, far = ((1.5 * x - 2.5) * x) * x + 1.0, ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x >= 2, 0.0, np.where(x >= 1, far, near))


def _mitchell(x: Array) -> Array:
    near = ((7 / 6 * x - 2.0) * x) * x + 8 / 9
    far = ((-7 / 18 * x + 2.0) * x - 10 / 3) * x + 16 / 9
    return np.where(x >= 2, 0.0, np.where(x >= 1, far, near))


#: {name: radius, weight by the distance}
KERNELS: Final[dict[bytes, tuple[float, Callable[[Array], Array]]]] = {
    b"lanczos1": (1.0, _lanczos(1.0)),
    b"lanczos3": (3.0, _lanczos(3.0)),
    b"lanczos5": (5.0, _lanczos(5.0)),
    b"gaussian": (1.5, lambda x: np.where(x >= 1.5, 0.0, np.exp(-2.0 * x * x))),
    b"box": (0.5, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    b"triangle": (1.0, lambda x: np.maximum(1.0 - x, 0.0)),
    b"keyscubic": (2.0, _keys),
    b"mitchellcubic": (2.0, _mitchell),
}


def sampled(
    kernel: bytes, size: int, out: int, scale: float, translation: float, antialias: bool
) -> SpanWeights:
    """Spans of a resampling filter under x -> scale * x + translation; nothing where that is outside."""
    radius, weigh = KERNELS[kernel]
    inverse = np.float32(1.0) / np.float32(scale)
    wide = max(float(inverse), 1.0) if antialias else 1.0
    where = (np.arange(out, dtype=np.float32) + np.float32(0.5)) * inverse - inverse * np.float32(translation)
    outside = ~((where >= 0) & (where <= size))
    where = np.where(outside, np.float32(0), where)
    reach = np.float32(radius * wide)
    first = np.clip(np.ceil(where - reach - np.float32(0.5)), 0, size - 1).astype(np.int64)
    last = np.clip(np.floor(where + reach - np.float32(0.5)), 0, size - 1).astype(np.int64)
    span = int((last - first).max()) + 1 if out else 0
    indices = first[:, None] + np.arange(span)
    distances = np.abs(indices + np.float32(0.5) - where[:, None]).astype(np.float64) / wide
    weights = np.where((indices > last[:, None]) | outside[:, None], 0.0, weigh(distances))
    return SpanWeights(np.minimum(indices, size - 1), _normalised(weights))


def _normalised(weights: Array) -> Array:
    sums = weights.sum(axis=1, keepdims=True)
    small = np.abs(sums) < _SUM_MIN
    result: Array = (weights / np.where(small, 1.0, sums)).astype(np.float32)
    return result


@functools.cache
def _cubic_table(sharpness: float) -> tuple[Array, Array]:
    """Weights of the near and of the far neighbours, by the distance in parts of 1024."""
    x = np.arange(_TABLE + 1) / _TABLE
    near = ((sharpness + 2) * x - (sharpness + 3)) * x * x + 1
    x = x + 1
    far = ((sharpness * x - 5 * sharpness) * x + 8 * sharpness) * x - 4 * sharpness
    return near.astype(np.float32), far.astype(np.float32)


@functools.lru_cache(maxsize=64)
def cubic(size: int, out: int, align_corners: bool, half_pixel: bool) -> SpanWeights:
    """Spans of four by Keys' cubic polynomial, its places rounded to parts of 1024 of an element."""
    steps = np.arange(out, dtype=np.float32)
    scale = scale_of(size, out, align_corners)
    where = (steps + np.float32(0.5)) * scale - np.float32(0.5) if half_pixel else steps * scale
    below = np.floor(where)
    # Halves are rounded away from zero.
    part = np.floor((where - below) * _TABLE + np.float32(0.5)).astype(np.int64)
    near, far = _cubic_table(-0.5 if half_pixel else -0.75)
    weights = np.stack([far[part], near[part], near[_TABLE - part], far[_TABLE - part]], axis=1)
    indices = below.astype(np.int64)[:, None] + np.arange(-1, 3)
    inside = np.clip(indices, 0, size - 1)
    if half_pixel:
        weights = _normalised(np.where(inside == indices, weights, np.float32(0)))
    return SpanWeights(inside, weights)


@functools.lru_cache(maxsize=64)
def area(size: int, out: int, align_corners: bool) -> SpanWeights:
    """Spans of the elements that each output element covers, each by how much of it is covered."""
    scale = scale_of(size, out, align_corners)
    begin = np.arange(out, dtype=np.float32) * scale
    end = np.arange(1, out + 1, dtype=np.float32) * scale
    first, behind = np.floor(begin).astype(np.int64), np.ceil(end).astype(np.int64)
    span = int((behind - first).max())
    indices = first[:, None] + np.arange(span)
    covered = np.minimum(indices + 1, end[:, None]) - np.maximum(indices, begin[:, None])
    # An element that holds both bounds counts by the width of the output element.
    weights = np.where(indices < behind[:, None], np.maximum(covered, 0), 0) / scale
    return SpanWeights(np.clip(indices, 0, size - 1), weights.astype(np.float32))


def scale_of(size: int, out: int, align_corners: bool) -> Any:
    """Elements of the input for each of the output."""
    if align_corners and out > 1:
        return np.float32(size - 1) / np.float32(out - 1)
    return np.float32(size) / np.float32(out)
