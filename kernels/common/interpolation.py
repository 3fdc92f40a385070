"""Which elements of an axis are mixed, and how much of each, when it is resized: by sizes alone."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

HOST: Final = "small tables that follow from sizes, made once in host memory and taken to the device"


def _scale(size: int, out: int, align_corners: bool) -> Any:
    if align_corners and out > 1:
        return np.float32(size - 1) / np.float32(out - 1)
    return np.float32(size) / np.float32(out)


def _positions(size: int, out: int, align_corners: bool, half_pixel: bool) -> Array:
    """Return the position of each output element among the input's, float32."""
    steps = np.arange(out, dtype=np.float32)
    scale = _scale(size, out, align_corners)
    where: Array = (steps + np.float32(0.5)) * scale - np.float32(0.5) if half_pixel else steps * scale
    return where


@functools.lru_cache(maxsize=256)
@functools.lru_cache(maxsize=256)
def linear(size: int, out: int, align_corners: bool, half_pixel: bool) -> tuple[Array, Array, Array]:
    """Lower neighbour, upper neighbour, and the weight of the upper, of each output element."""
    where = _positions(size, out, align_corners, half_pixel)
    floor = np.floor(where)
    lower = np.clip(floor.astype(np.int64), 0, size - 1)
    upper = np.clip(floor.astype(np.int64) + 1, 0, size - 1)
    return lower, upper, where - floor


@functools.lru_cache(maxsize=256)
def nearest(size: int, out: int, align_corners: bool, half_pixel: bool) -> Array:
    """The input element that each output element takes."""
    steps = np.arange(out, dtype=np.float32)
    scale = _scale(size, out, align_corners)
    where = (steps + np.float32(0.5)) * scale if half_pixel else steps * scale
    # Ties round away from zero; nothing is negative here.
    chosen = np.floor(where + np.float32(0.5)) if align_corners else np.floor(where)
    elements: Array = np.clip(chosen.astype(np.int64), 0, size - 1)
    return elements


def weights(size: int, lower: Array, upper: Array, weight: Array, dtype: Any) -> Array:
    """The matrix (size, out) whose transpose interpolates."""
    matrix = np.zeros((size, lower.size), dtype)
    steps = np.arange(lower.size)
    np.add.at(matrix, (lower, steps), 1 - weight.astype(dtype))
    np.add.at(matrix, (upper, steps), weight.astype(dtype))
    return matrix
