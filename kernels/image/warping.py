"""Images read at places that lie between pixels, and the parts of an image that hang together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.image.resizing import project_alike
from flowengine.kernels.registry import kernel


def _resampling_cost(data: Array, warp: Array, *_: Array) -> float:
    return warp.size * data.shape[-1] / 50 if data.ndim else 0.0


def _pixels_cost(images: Array, *_: Array) -> float:
    return images.size / 20


def _merging_cost(image: Array) -> float:
    return float(image.size)


def _check(data: Array, warp: Array) -> None:
    if data.ndim != 4:
        raise UnimplementedError(
            "Only bilinear interpolation is currently supported. The input data shape must be [batch_size, "
            f"data_height, data_width, data_channels], but is: {brackets(data.shape)}"
        )
    if warp.ndim < 2:
        raise InvalidArgumentError(f"warp should be at least a matrix, got shape {brackets(warp.shape)}")
    if warp.shape[-1] != 2:
        raise UnimplementedError(
            "Only bilinear interpolation is supported, warping coordinates must be 2D; warp shape last entry "
            f"should be 2, but shape vector is: {brackets(warp.shape)}"
        )
    if data.shape[0] != warp.shape[0]:
        raise InvalidArgumentError(
            "Batch size of data and warp tensor must be the same, but input shapes are: "
            f"{brackets(data.shape)}, {brackets(warp.shape)}"
        )


class _Corners:
    """The four pixels around each of P places of each image of (N, H, W, C).

    far     how far the left and upper pixels weigh: (N, P, 1) each, for x and y
    inside  (N, P, 1): whether the place is less than a pixel from the image
    """

    def __init__(self, xp: Any, data: Array, warp: Array) -> None:
        batch, self.height, self.width, self.depth = data.shape
        self._xp, self._data = xp, data
        places = warp.reshape(batch, math.prod(warp.shape[1:-1]), 2)
        x, y = places[..., :1], places[..., 1:]
        self.inside = (x > -1) & (y > -1) & (x < self.width) & (y < self.height)
        x, y = (xp.where(self.inside, each, xp.zeros_like(each)) for each in (x, y))
        left, top = xp.floor(x), xp.floor(y)
        one = x.dtype.type(1)
        self.far = (left + one - x, top + one - y)
        self._left, self._top = left.astype(np.int64), top.astype(np.int64)
        self._image = xp.arange(batch)[:, None, None]

    def _at(self, down: int, across: int) -> tuple[Any, Any]:
        """The numbers of pixels among all, (N, P, 1), and which of them there are."""
        row, column = self._top + down, self._left + across
        there = self.inside & (row >= 0) & (row < self.height) & (column >= 0) & (column < self.width)
        number = (self._image * self.height + row) * self.width + column
        return self._xp.where(there, number, self._xp.zeros_like(number)), there

    def read(self, down: int, across: int) -> Any:
        """The values of one of the four, (N, P, C); 0 outside of the image."""
        number, there = self._at(down, across)
        pixels = self._data.reshape(-1, self.depth)
        if not len(pixels):
            return self._xp.zeros((*number.shape[:2], self.depth), pixels.dtype)
        found = pixels[number[..., 0]]
        return self._xp.where(there, found, self._xp.zeros_like(found))

    def add(self, total: Any, down: int, across: int, values: Any) -> None:
        """Add (N, P, C) to one of the four in (N * H * W, C)."""
        number, there = self._at(down, across)
        if len(total):
            kept = self._xp.where(there, values, self._xp.zeros_like(values))
            add_rows(self._xp, total, number.reshape(-1), kept.reshape(-1, self.depth))


@kernel("Resampler", "Addons>Resampler", fresh=True, heavy=_resampling_cost)
def resampler(xp: Any, data: Array, warp: Array) -> Any:
    """Read images (N, H, W, C) at places (x, y) of (N, ..., 2), between four pixels: (N, ..., C).

    Outside of the image all is 0, which a place less than a pixel away is mixed with.
    """
    _check(data, warp)
    corners = _Corners(xp, data, warp)
    dx, dy = corners.far
    one = data.dtype.type(1)
    mixed = (
        dx * dy * corners.read(0, 0)
        + (one - dx) * (one - dy) * corners.read(1, 1)
        + dx * (one - dy) * corners.read(1, 0)
        + (one - dx) * dy * corners.read(0, 1)
    )
    found = xp.where(corners.inside, mixed, xp.zeros_like(mixed))
    return found.reshape(*warp.shape[:-1], data.shape[3])


@kernel("ResamplerGrad", "Addons>ResamplerGrad", fresh=True, heavy=_resampling_cost)
def resampler_grad(xp: Any, data: Array, warp: Array, grad_output: Array) -> Any:
    """Return the gradients of `Resampler` by the images and by the places."""
    _check(data, warp)
    expected = (*warp.shape[:-1], data.shape[3])
    if grad_output.shape != expected:
        raise InvalidArgumentError(
            "grad_output shape is not consistent with data and warp shapes; it should be "
            f"{brackets(expected)} but is {brackets(grad_output.shape)}"
        )
    corners = _Corners(xp, data, warp)
    dx, dy = corners.far
    one = data.dtype.type(1)
    grad = grad_output.reshape(*corners.inside.shape[:2], data.shape[3])
    grad = xp.where(corners.inside, grad, xp.zeros_like(grad))
    by_data = xp.zeros((data.shape[0] * data.shape[1] * data.shape[2], data.shape[3]), data.dtype)
    corners.add(by_data, 0, 0, grad * dx * dy)
    corners.add(by_data, 1, 1, grad * (one - dx) * (one - dy))
    corners.add(by_data, 1, 0, grad * dx * (one - dy))
    corners.add(by_data, 0, 1, grad * (one - dx) * dy)
    here, right, below, across = (corners.read(*each) for each in ((0, 0), (0, 1), (1, 0), (1, 1)))
    by_x = grad * ((one - dy) * (across - below) + dy * (right - here))
    by_y = grad * ((one - dx) * (across - right) + dx * (below - here))
    by_warp = xp.stack([by_x.sum(axis=-1), by_y.sum(axis=-1)], axis=-1)
    return by_data.reshape(data.shape), by_warp.astype(warp.dtype).reshape(warp.shape)


@kernel("ImageProjectiveTransform", fresh=True, heavy=_pixels_cost)
def image_projective_transform(xp: Any, images: Array, transforms: Array, *, interpolation: bytes) -> Any:
    """`ImageProjectiveTransformV2` with results as large as the images, 0 outside of them."""
    return project_alike(xp, images, transforms, interpolation)


@kernel(
    "ImageConnectedComponents",
    "Addons>ImageConnectedComponents",
    fresh=True,
    heavy=_merging_cost,
    device="CPU",
)
def image_connected_components(image: Array) -> Array:
    """Number the parts of equal pixels of (N, H, W) that hang together by their sides; 0 for pixels of 0.

    A number is one more than the index of one of the part's pixels, the one that TensorFlow's merging of ever
    larger blocks ends with.
    """
    if image.ndim != 3:
        raise InvalidArgumentError(f"Input images must have rank 3, got shape {brackets(image.shape)}")
    pixels = image
    filled = pixels != (b"" if pixels.dtype.kind == "O" else pixels.dtype.type(0))
    forest = _Forest(pixels.size)
    for pairs in _neighbours(pixels, filled):
        for one, other in pairs.tolist():
            forest.join(one, other)
    roots = np.array([forest.root(i) for i in range(pixels.size)], np.int64).reshape(pixels.shape)
    return np.where(filled, roots + 1, 0)


def _neighbours(pixels: Array, filled: Array) -> Iterator[Array]:
    """The pairs (n, 2) of equal neighbours, in groups: those at the seams of blocks of 2, 4, 8 ... pixels.

    Of each block its vertical seam comes before its horizontal one.
    """
    batch, height, width = pixels.shape
    index = np.arange(pixels.size).reshape(pixels.shape)
    right = filled[:, :, :-1] & (pixels[:, :, :-1] == pixels[:, :, 1:])
    down = filled[:, :-1] & (pixels[:, :-1] == pixels[:, 1:])
    block = 1
    while block < max(height, width):
        corners = itertools.product(range(batch), range(0, height, 2 * block), range(0, width, 2 * block))
        for image, top, left in corners:
            rows, columns = slice(top, top + 2 * block), slice(left, left + 2 * block)
            seam, low = left + block - 1, top + block - 1
            if seam + 1 < width:
                pairs = index[image, rows, seam : seam + 2]
                yield pairs[right[image, rows, seam]]
            if low + 1 < height:
                pairs = index[image, low : low + 2, columns].T
                yield pairs[down[image, low, columns]]
        block *= 2


class _Forest:
    """Sets of indices that grow together, each known by one of its members, as TensorFlow chooses it."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))
        self._rank = [0] * size

    def root(self, index: int) -> int:
        """The member by which the set of an index is known."""
        parent = self._parent
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    def join(self, one: int, other: int) -> None:
        """Make one set of two."""
        first, second = self.root(one), self.root(other)
        if first == second:
            return
        if self._rank[first] < self._rank[second]:
            self._parent[second] = first
        else:
            self._parent[first] = second
            self._rank[second] += 1
