"""Convolutions by windows of three rows with a third fewer products: minimal filtering F(2, 3) of the rows.

Two rows of a result, y0 and y1, depend on four of the input, d0 to d3, and on the three of the filters. That
are six products of a row by a row, but four do, of sums and differences (S. Winograd, Arithmetic Complexity
of Computations, 1980; for networks A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural Networks,
2015):

    v = (d0 - d2, d1 + d2, d2 - d1, d3 - d1)
    u = (w0, (w0 + w1 + w2) / 2, (w0 - w1 + w2) / 2, w2)
    y0 = v1 u1 + v2 u2 + v0 u0        y1 = v1 u1 - v2 u2 + v3 u3

A product here is a convolution by windows of one row, which the library computes; NumPy, block by block in
the second cache, does what comes before and after. The gradient of the input is a convolution of the
result's by the same filters upside down. That of the filters takes the same tiles, with the roles exchanged:

    g = (y0, y0 + y1, y0 - y1, y1)    p = v g, summed over all tiles
    w0 = (p1 + p2) / 2 + p0           w1 = (p1 - p2) / 2           w2 = (p1 + p2) / 2 + p3

(y and w are gradients here.) Results differ from those of the sum in order by about as much as two orders of
summing do. What is not finite reaches the same elements of a result, though an infinite one may become NaN
there. Only the rows are treated so: with the columns as well it would be fewer products still, and four
times as many sums, which are bound by memory.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.onednn.layers.post_ops import RELU6_FORM, RELU_FORM
from flowengine.kernels.onednn.layers.shapes import Layer, WindowAttributes

#: The environment variable that turns this off.
VARIABLE: Final = "FLOWENGINE_WINOGRAD"
#: Rows of the filters, and products instead of six.
_TAPS: Final = 3
PRODUCTS: Final = 4

#: Multiplications and additions of one core in a microsecond, and what this leaves of their time.
_PER_MICROSECOND: Final = 90_000.0
_LEFT: Final = 0.74
#: Microseconds that NumPy takes for an element of the input and of the result; of the filters, and what it
#: takes to read more of those that are kept; for what others find no more in the second cache.
_PER_ELEMENT: Final = 0.75e-3
_PER_FILTER: Final = 1.2e-3
_PER_KEPT: Final = 0.15e-3
_PER_CALL: Final = 100.0
#: What the sums may take of what the products take in order.
_GAIN: Final = 0.95
#: Fewer channels were not measured: windows wide enough would make up for what they cost.
_CHANNELS_MIN: Final = 32
#: Bytes of blocks: what is added lies in the second cache, about; a gradient of filters is added up as well.
BLOCK_BYTES: Final = 3 << 20
LARGE_BLOCK_BYTES: Final = 12 << 20
#: Elements of filters that are added at a time: what they are made of lies in the second cache.
_CHUNK: Final = 16 << 10

_HALF: Final = np.float32(0.5)
_NONE: Final = np.float32(0)
_MINUS: Final = np.float32(-1)
_SIX: Final = np.float32(6)

#: What is done with arrays that lie at a program's addresses.
Step: TypeAlias = Callable[[Sequence[Array]], None]


@dataclass(frozen=True, slots=True)
class Tiles:
    """How the rows of images lie in tiles of four, of which each begins two behind the one before.

    rows    of an image
    before  rows of zeros above it
    out     rows of a result
    """

    rows: int
    before: int
    out: int

    @property
    def count(self) -> int:
        return -(-self.out // 2)

    def reversed(self) -> Tiles:
        """Those of the result's gradient, of which the input's is made by filters upside down."""
        return Tiles(self.out, _TAPS - 1 - self.before, self.rows)

    def within(self, place: int, tile: int) -> bool:
        """Whether this row of a tile is one of the image's."""
        return 0 <= 2 * tile - self.before + place < self.rows

    def taken(self, place: int, start: int, stop: int) -> slice:
        """The image's rows that lie in this place of tiles."""
        first = 2 * start - self.before + place
        return slice(first, first + 2 * (stop - start) - 1, 2)


@dataclass(frozen=True, slots=True)
class Block:
    """Some images and some of their tiles, which are computed together."""

    images: slice
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.images.stop - self.images.start, self.stop - self.start


def blocks(images: int, tiles: int, row_bytes: int, limit: int) -> list[Block]:
    """All tiles in blocks of at most so many bytes, of which a row of tiles takes `row_bytes`."""
    rows = max(1, limit // max(1, row_bytes))
    if rows >= tiles:
        some = _evenly(images, rows // tiles)
        return [Block(slice(n, min(n + some, images)), 0, tiles) for n in range(0, images, some)]
    rows = _evenly(tiles, rows)
    return [
        Block(slice(n, n + 1), start, min(start + rows, tiles))
        for n in range(images)
        for start in range(0, tiles, rows)
    ]


def _evenly(count: int, limit: int) -> int:
    """How many a part has at most where so many are parted into as few as the limit allows."""
    return -(-count // -(-count // limit))


def tiles_of(sliding: WindowAttributes, layer: Layer, threads: int, constant: bool = False) -> Tiles | None:
    """The tiles of a convolution that takes less time in them; None of any other.

    constant   whether the filters never change: they are made ready once
    """
    found = share_in_tiles(sliding, layer, threads, constant)
    return found[0] if found is not None and found[1] < 1 else None


def share_in_tiles(
    sliding: WindowAttributes, layer: Layer, threads: int, constant: bool
) -> tuple[Tiles, float] | None:
    """(tiles, the share of what the library's own convolution takes), where rows can lie in tiles.

    What is gained has to be worth the trouble: the share is 1 where that is as much as `_GAIN` leaves.
    """
    geometry = layer.geometry
    if sliding.first or sliding.depthwise or not _can_be(geometry):
        return None
    high, wide, inward, outward = layer.filter_shape
    images, _, _, channels = layer.input
    if channels != inward or min(inward, outward) < _CHANNELS_MIN or _is_off():
        return None
    pixels = images * geometry.out[0] * geometry.out[1]
    filters = high * wide * inward * outward
    tiles = Tiles(geometry.sizes[0], geometry.before[0], geometry.out[0])
    moved = images * geometry.sizes[0] * geometry.sizes[1] * inward + pixels * outward
    in_order = pixels * filters / _PER_MICROSECOND / threads
    in_tiles = in_order * _LEFT * 2 * tiles.count / geometry.out[0]
    added = _PER_CALL + moved * _PER_ELEMENT + filters * (_PER_KEPT if constant else _PER_FILTER)
    return tiles, (in_tiles + added) / (_GAIN * in_order)


def _can_be(geometry: Windows) -> bool:
    return (
        geometry.window[0] == _TAPS
        and geometry.strides == (1, 1)
        and geometry.dilations == (1, 1)
        and max(geometry.before[0], geometry.after[0]) < _TAPS
    )


def _is_off() -> bool:
    return os.environ.get(VARIABLE, "").strip().lower() in ("off", "0", "no", "false")


def one_row(layer: Layer, shape: tuple[int, int]) -> Layer:
    """The convolution by one row of filters of so many images and tiles."""
    geometry = layer.geometry
    _, wide, inward, outward = layer.filter_shape
    beside = (0, 0, 0, 0, geometry.before[1], geometry.after[1], 0, 0)
    sliding = WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), b"EXPLICIT", beside, False)
    return Layer(sliding, (*shape, geometry.sizes[1], inward), (1, wide, inward, outward))


def _pairs(
    tiles: Tiles, block: Block, plan: Sequence[tuple[Any, int, int]]
) -> list[tuple[Any, int, slice, list[slice]]]:
    """(what is done, which product it is for, its tiles, the image's rows of which it is made)."""
    steps: list[tuple[Any, int, slice, list[slice]]] = []
    for product, (function, one, other) in enumerate(plan):
        kinds = [(tiles.within(one, t), tiles.within(other, t)) for t in range(block.start, block.stop)]
        start = block.start
        for (has_one, has_other), run in itertools.groupby(kinds):
            stop = start + len(list(run))
            target = slice(start - block.start, stop - block.start)
            sources = [
                tiles.taken(place, start, stop)
                for place, there in ((one, has_one), (other, has_other))
                if there
            ]
            if len(sources) == 1:
                does: Any = _negated if has_other and function is np.subtract else np.positive
            else:
                does = function if sources else None
            steps.append((does, product, target, sources))
            start = stop
    return steps


def _negated(rows: Array, out: Array) -> None:
    # NumPy 2.4's `negative` reads the wrong elements where both sides have certain strides.
    np.multiply(rows, _MINUS, out=out)


def spread(tiles: Tiles, block: Block) -> Step:
    """Make v of images (N, H, W, C): called with those, and four of (images, tiles, W, C)."""
    plan = ((np.subtract, 0, 2), (np.add, 1, 2), (np.subtract, 2, 1), (np.subtract, 3, 1))
    steps = _pairs(tiles, block, plan)

    def compute(arrays: Sequence[Array]) -> None:
        images = arrays[0][block.images]
        for does, product, target, sources in steps:
            out = arrays[1 + product][:, target]
            if does is None:
                out[...] = 0
            else:
                does(*[images[:, rows] for rows in sources], out=out)

    return compute


def spread_result(tiles: Tiles, block: Block) -> Step:
    """Make g of a result's gradient (N, H, W, C): called with that, and four of (images, tiles, W, C)."""
    start, stop = 2 * block.start, min(2 * block.stop, tiles.out)
    lacking = (stop - start) % 2

    def compute(arrays: Sequence[Array]) -> None:
        whole, g0, g1, g2, g3 = arrays
        part = whole[block.images, start:stop]
        even, odd = part[:, 0::2], part[:, 1::2]
        g0[...] = even
        if lacking:
            g1[:, -1] = g2[:, -1] = even[:, -1]
            g3[:, -1] = 0
            even, g1, g2, g3 = even[:, :-1], g1[:, :-1], g2[:, :-1], g3[:, :-1]
        np.add(even, odd, out=g1)
        np.subtract(even, odd, out=g2)
        g3[...] = odd

    return compute


def cross(arrays: Sequence[Array]) -> None:
    """Of the products of v1 and v2: their sum and their difference, to which the others are added."""
    m1, m2, total, difference = arrays
    np.add(m1, m2, out=total)
    np.subtract(m1, m2, out=difference)


def interleave(tiles: Tiles, block: Block, forms: Sequence[str] = ()) -> Step:
    """Put even and odd rows where they belong, then do what follows: see `after`.

    Called with both (images, tiles, W, C), the operands of the forms, and the result (N, H, W, C).
    """
    start, stop = 2 * block.start, min(2 * block.stop, tiles.out)
    followers = [_follower(form, block, slice(start, stop)) for form in forms]

    def compute(arrays: Sequence[Array]) -> None:
        even, odd, *operands, whole = arrays
        part = whole[block.images, start:stop]
        part[:, 0::2] = even
        part[:, 1::2] = odd[:, : (stop - start) // 2]
        for follower, operand in zip(followers, operands, strict=True):
            follower(part, operand)

    return compute


def gather(tiles: Tiles, block: Block) -> Step:
    """Make the result (N, H, W, C) of the four products (images, tiles, W, C)."""
    start, stop = 2 * block.start, min(2 * block.stop, tiles.out)
    full = (stop - start) // 2

    def compute(arrays: Sequence[Array]) -> None:
        m0, m1, m2, m3, whole = arrays
        part = whole[block.images, start:stop]
        even, odd = part[:, 0::2], part[:, 1::2]
        np.add(m1, m2, out=even)
        np.subtract(m1[:, :full], m2[:, :full], out=odd)
        even += m0
        odd += m3[:, :full]

    return compute


_SUMS: Final = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def _follower(form: str, block: Block, rows: slice) -> Callable[[Array, Array], None]:
    if form in (RELU_FORM, RELU6_FORM):

        def clip(part: Array, _: Array) -> None:
            # Of equal ones the second is taken: -0 becomes 0.
            np.maximum(part, _NONE, out=part)
            if form == RELU6_FORM:
                np.minimum(part, _SIX, out=part)

        return clip
    name, reach = form.split()
    function = _SUMS[name]

    def apply(part: Array, operand: Array) -> None:
        function(part, operand[block.images, rows] if reach == "whole" else operand, out=part)

    return apply


def mix_filters(count: int) -> Step:
    """Make u of filters: w0, w1, anything and w2 in the four rows of (4, `count` or more) become u0 to u3."""

    def compute(arrays: Sequence[Array]) -> None:
        for w0, w1, u2, w2 in _chunks(arrays[0], count):
            half = w1 * _HALF
            np.add(w0, w2, out=u2)
            u2 *= _HALF
            np.add(u2, half, out=w1)
            u2 -= half

    return compute


def unmix_filters(count: int) -> Step:
    """Make the gradient of p: of the four rows of (4, `count` or more) 0, 1 and 2 are left with w0 to w2."""

    def compute(arrays: Sequence[Array]) -> None:
        for p0, p1, p2, p3 in _chunks(arrays[0], count):
            difference = p1 - p2
            p2 += p1
            p2 *= _HALF
            np.multiply(difference, _HALF, out=p1)
            p0 += p2
            p2 += p3

    return compute


def _chunks(rows: Array, count: int) -> Iterator[Array]:
    for start in range(0, count, _CHUNK):
        yield rows[:, start : min(start + _CHUNK, count)]


def add_products(arrays: Sequence[Array]) -> None:
    """Add the products of a block, the second, to those of the blocks before."""
    total, more = arrays
    total += more
