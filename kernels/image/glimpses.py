"""Windows of images, around a place of each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

HOST: Final = "what lies outside of an image is filled with noise that no seed repeats, drawn in host memory"

_NOISES: Final = (b"uniform", b"gaussian", b"zero")


def _starts(
    offsets: Array, size: tuple[int, int], window: tuple[int, int], centered: bool, normalized: bool
) -> Array:
    """(N, 2) int64: the first row and column of each window."""
    places = offsets * np.array(size, np.float32) if normalized else offsets
    if centered:
        places = places / np.float32(2) + np.array(size, np.float32) / np.float32(2)
    return _whole(places - np.array(window, np.float32) / np.float32(2))


def _starts_v2(
    offsets: Array, size: tuple[int, int], window: tuple[int, int], centered: bool, normalized: bool
) -> Array:
    """As `_starts`; offsets in pixels, and those from the corner, are where the window begins."""
    if centered and normalized:
        return _starts(offsets, size, window, centered, normalized)
    if centered:
        return _whole(offsets + np.array(size, np.float32) / np.float32(2))
    return _whole(offsets * np.array(size, np.float32) if normalized else offsets)


def _whole(places: Array) -> Array:
    """Without what is behind the point; far outside for what is no number."""
    bound = np.float32(2**40)
    whole: Array = np.trunc(np.clip(np.where(np.isnan(places), bound, places), -bound, bound)).astype(
        np.int64
    )
    return whole


@kernel("ExtractGlimpse", "ExtractGlimpseV2", fresh=True)
def extract_glimpse(
    images: Array,
    size: Array,
    offsets: Array,
    *,
    centered: bool,
    normalized: bool,
    noise: bytes,
    uniform_noise: bool,
    node: Node,
) -> Any:
    """Windows of `size` around `offsets` (N, 2: y, x) of images (N, H, W, C); returns (N, height, width, C).

    centered     offsets are from the middle of the image to the middle of the window
    normalized   they are parts of the image's size: from -1 to 1 if centred
    noise        what lies outside: uniform, gaussian, or zero
    """
    if images.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional, not {shape_text(images)}")
    batch, height, width, depth = images.shape
    if size.ndim != 1 or size.shape[0] != 2:
        raise InvalidArgumentError(f"input must be a vector of size 2, not {shape_text(size)}")
    rows, columns = size.tolist()
    if rows < 0 or columns < 0:
        raise InvalidArgumentError(f"glimpse size must not be negative: {rows} x {columns}")
    if offsets.ndim != 2 or offsets.shape != (batch, 2):
        raise InvalidArgumentError(f"offsets must be ({batch}, 2), not {shape_text(offsets)}")
    if noise not in _NOISES:
        raise InvalidArgumentError(f"Unsupported noise: {noise.decode('utf-8', 'backslashreplace')}")
    if uniform_noise and noise != b"uniform":
        raise InvalidArgumentError(f"uniform_noise should not be True when noise is {noise.decode()}")
    window = (rows, columns)
    starts = _STARTS[node.op](offsets, (height, width), window, centered, normalized)
    y = starts[:, 0, None] + np.arange(rows)
    x = starts[:, 1, None] + np.arange(columns)
    inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
    result = np.zeros((batch, rows, columns, depth), np.float32)
    image, row, column = np.nonzero(inside)
    result[image, row, column] = images[image, y[image, row], x[image, column]]
    if noise != b"zero" and not inside.all():
        result[~inside] = _noise(images, noise, int((~inside).sum()))
    return result


_STARTS: Final = {"ExtractGlimpse": _starts, "ExtractGlimpseV2": _starts_v2}


def _noise(images: Array, kind: bytes, count: int) -> Any:
    """(count, C): of the range, or of the mean and deviation, of all pixels."""
    generator = np.random.default_rng()
    shape = (count, images.shape[3])
    if not images.size:
        return np.zeros(shape, np.float32)
    if kind == b"gaussian":
        return generator.normal(images.mean(), images.std(), shape)
    low, high = float(images.min()), float(images.max())
    return low + (high - low) * generator.random(shape)
