"""The gradient of an image of few channels, which is the input of a network's first layer, block by block.

The library spreads the channels of a result over vectors of 16 numbers; with three channels it computes
five times what is asked for. A block of the image, of as many pixels as the stride or a multiple of it, has
16 numbers or 48. What all blocks get from the gradient of the output is an ordinary convolution of that
gradient, whose channels are the numbers of a block. Along one axis, with stride s and blocks of m s pixels,
pixel r of block b gets

    sum of filter[k] * gradient[(m s b + r + before - k) / s] over all k that make this a whole number

so with q = (r + before - k) / s the filter of channel r is filter[r + before - s q] at place q, and zero
where there is no such element; from one block to the next the window moves on by m. The blocks are taken
apart at the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.onednn.layers.shapes import DIRECT, Layer, readable
from flowengine.kernels.onednn.library import LibraryError, address
from flowengine.kernels.onednn.objects import (
    QUERY_WEIGHTS,
    Description,
    anyhow,
    dense_strides,
    dims,
    image,
    strided,
)
from flowengine.kernels.onednn.programs.program import DST, SRC, WEIGHTS, PrimitiveProgram

_FORWARD: Final = 96
#: Numbers of a vector, and how many of these a block has at most.
_LANES: Final = 16
_VECTORS_MAX: Final = 4
#: Steps of the window from block to block that are tried.
_STEPS_MAX: Final = 16
#: Products that have to be under way at a time for the next one not to wait.
_UNDER_WAY: Final = 8
#: Blocks are made where they take less than this part of the products of the library's own gradient.
_GAIN: Final = 0.95
#: (outputs, products for each that is needed) from which planes are quicker: see `conv_planes`.
_PLANES: Final = (64, 2.75)


@dataclass(frozen=True, slots=True)
class Axis:
    """Blocks along one axis.

    step     by how much the window over the gradient moves from a block to the next
    block    pixels of a block
    count    blocks; the last may reach beyond the image
    taps     places of the window
    before   padding of the gradient at its begin
    after    padding at its end; negative, as the other, where windows lie in the image's padding alone:
             that the library does not compute
    element  (taps, block): the element of the filter at each place for each pixel, -1 for none
    """

    size: int
    step: int
    block: int
    count: int
    taps: int
    before: int
    after: int
    element: Array

    @classmethod
    def of(cls, geometry: Windows, axis: int, step: int) -> Axis:
        size, window, stride = geometry.sizes[axis], geometry.window[axis], geometry.strides[axis]
        edge = geometry.before[axis]
        block = step * stride
        count = -(-size // block)
        first, last = -((window - 1 - edge) // stride), (block - 1 + edge) // stride
        places = np.arange(first, last + 1)[:, None]
        element = np.arange(block) + edge - stride * places
        element[(element < 0) | (element >= window)] = -1
        after = step * (count - 1) + last - (geometry.out[axis] - 1)
        return cls(size, step, block, count, len(places), -first, after, element)

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """(first block, blocks, pixels of each): those that lie within the image, and one that is cut."""
        whole, rest = divmod(self.size, self.block)
        if whole:
            yield 0, whole, self.block
        if rest:
            yield whole, 1, rest


def _work(down: Axis, across: Axis, channels: int) -> float:
    """Products for one image and one channel of its gradient, of which some are waited for."""
    vectors = -(-down.block * across.block * channels // _LANES)
    under_way = min(across.count * vectors / _UNDER_WAY, 1.0)
    return down.count * across.count * vectors * _LANES * down.taps * across.taps / under_way


def cheapest(geometry: Windows, channels: int, width: int, planes: bool) -> tuple[Axis, Axis] | None:
    """Rows and columns of the blocks that take least; None where without blocks it takes less.

    width    channels of the gradient
    planes   whether the gradient could be gathered in planes
    """
    if channels >= _LANES or geometry.dilations != (1, 1):
        return None
    most = _VECTORS_MAX * _LANES // (math.prod(geometry.strides) * channels)
    rows, columns = (
        [Axis.of(geometry, axis, step) for step in range(1, min(most, size, _STEPS_MAX) + 1)]
        for axis, size in enumerate(geometry.sizes)
    )
    pairs = [(one, other) for one in rows for other in columns if one.step * other.step <= most]
    if not pairs:
        return None
    down, across = min(pairs, key=lambda pair: _work(pair[0], pair[1], channels))
    work = _work(down, across, channels)
    needed = math.prod(geometry.out) * math.prod(geometry.window)
    if work > _GAIN * needed * _LANES:
        return None
    outputs, times = _PLANES
    if planes and width >= outputs and work > times * needed * channels:
        return None
    return down, across


class BlockGradient:
    """The gradient of images of this layer, whose filters have these shapes.

    LibraryError where the library cannot compute it so.
    """

    def __init__(self, layer: Layer, down: Axis, across: Axis, first: bool, *, alone: bool) -> None:
        library, attrs, geometry = layer.library, layer.attributes, layer.geometry
        rows, columns, channels, width = layer.filter_shape
        images = layer.input[0]
        self.shape = layer.input
        numbers = down.block * across.block * channels
        rows_of = np.where(
            (down.element[:, None, :, None] >= 0) & (across.element[None, :, None, :] >= 0),
            down.element[:, None, :, None] * columns + across.element[None, :, None, :],
            rows * columns,
        )
        self._elements: Array = rows_of.reshape(-1)
        self._filters = (rows * columns, channels * width)

        shape = (numbers, width, down.taps, across.taps)
        given = strided(library, shape, (width, 1, across.taps * numbers * width, numbers * width))
        wanted = anyhow(library, shape)
        source = image(library, images, geometry.out, width, False)
        blocks = image(library, images, (down.count, across.count), numbers, False)
        what = Description(
            library,
            "convolution_forward",
            library.engine,
            _FORWARD,
            DIRECT,
            source.value,
            wanted.value,
            None,
            blocks.value,
            dims((down.step, across.step)),
            dims((0, 0)),
            dims((down.before, across.before)),
            dims((down.after, across.after)),
            attrs.value,
        )
        self._program = program = PrimitiveProgram(library, alone)
        upstream = readable(program, layer.results, source, attrs)
        filters = readable(program, given, what.memory(QUERY_WEIGHTS), attrs)
        made = program.inside(blocks)
        program.step(what, {SRC: upstream, WEIGHTS: filters, DST: made})

        #: Bytes from the begin of the result to that of each of its parts.
        self._starts = self._take_apart(layer, down, across, first, made)

    def _take_apart(self, layer: Layer, down: Axis, across: Axis, first: bool, made: int) -> list[int]:
        """Have what was made of all blocks written to the image; where each part of it begins."""
        library, geometry, program = layer.library, layer.geometry, self._program
        images, channels = layer.input[0], layer.filter_shape[2]
        # A number is found at (image, block down, row, block across, column, channel).
        sizes = (images, down.count, across.count, down.block, across.block, channels)
        apart = dense_strides(sizes)
        if first:
            plane = (channels * geometry.sizes[0] * geometry.sizes[1], geometry.sizes[1], 1)
            over = math.prod(geometry.sizes)
        else:
            row = geometry.sizes[1] * channels
            plane = (row * geometry.sizes[0], row, channels)
            over = 1
        starts: list[int] = []
        for (top, high, tall), (left, wide, broad) in itertools.product(down.parts(), across.parts()):
            part = (images, high, wide, tall, broad, channels)
            inner = strided(library, part, apart)
            outer = strided(
                library,
                part,
                (plane[0], down.block * plane[1], across.block * plane[2], plane[1], plane[2], over),
            )
            skipped = top * apart[1] + left * apart[2]
            start = top * down.block * plane[1] + left * across.block * plane[2]
            starts.append(start * 4)
            program.reorder(
                program.within(made, inner, skipped * 4), program.outside(outer), layer.attributes
            )
        return starts

    def __call__(self, w: Array, gradient: Array) -> Array | None:
        """The gradient; None where it, or the given one, is not finite.

        Zeros stand where the filter of a block has no element, and infinity times zero would show.
        """
        out: Array = empty(self.shape, np.float32)
        count, length = self._filters
        filters = np.empty((count + 1, length), np.float32)
        filters[:-1] = w.reshape(count, length)
        filters[-1] = 0
        taken = filters.take(self._elements, axis=0)
        where = address(out)
        self._program(address(gradient), address(taken), *(where + start for start in self._starts))
        return out if math.isfinite(np.add.reduce(out, axis=None)) else None


def block_gradient(layer: Layer, first: bool, planes: bool, *, alone: bool) -> BlockGradient | None:
    """Make the gradient of a layer's input in blocks; None unless that is quickest and can be done.

    first    whether channels come before rows
    planes   whether the gradient could be gathered in planes
    """
    *_, channels, width = layer.filter_shape
    if layer.is_grouped:
        return None
    blocks = cheapest(layer.geometry, channels, width, planes)
    if blocks is None:
        return None
    try:
        return BlockGradient(layer, *blocks, first, alone=alone)
    except LibraryError:
        return None
