"""The gradient of a bias: the sum of the rows of (N, C).

It costs what it costs to read the rows. As products with ones several of them are added at a time, in blocks
that do not depend on how many cores take them, and so no bit of a sum does. Where rows are short the library
takes all blocks in one call, which can be joined with others; it walks down a few columns at a time, though,
and in wide matrices that leads from page to page, or always to the same part of the first cache: 12 MB of 512
columns took 0.8 ms, and 0.3 in NumPy's BLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common.parallel import slices, spread
from flowengine.kernels.common.pieces import FLOAT32, FixedMemory, Like, Piece, is_plain
from flowengine.kernels.onednn.library import LibraryError, address, library
from flowengine.kernels.onednn.objects import Description, Handle, attributes, dense
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.preparing import LAYER_ALONE_MICROSECONDS, prepared, required
from flowengine.kernels.onednn.programs.program import DST, SRC, WEIGHTS, PrimitiveProgram

#: Elements from which the library takes them; for fewer NumPy's call is as quick.
_LEAST: Final = 1 << 14
#: How wide what it takes is: it fills whole vectors, and of wider rows see above.
_WIDTH_MIN: Final = 8
_WIDTH_MAX: Final = 384
#: Rows of a block, and at most as many blocks.
_BLOCK_MIN: Final = 128
_BLOCK_MAX: Final = 2048
#: Elements that one core adds in a microsecond.
_ELEMENTS: Final = 12_000.0
#: Elements from which NumPy adds what the library does not take in parts of half as many. From 460,000 on its
#: BLAS spreads a sum over threads that then wait busily: one cost the rest of a step 20 ms of 430.
_LARGE: Final = 1 << 18

_ones: Final = np.ones(_BLOCK_MAX, FLOAT32)


def block_of(count: int) -> int:
    """How many of so many rows are added at a time so that none are left over; 0 if no number fits."""
    least = -(-count // _BLOCK_MAX)
    for blocks in range(least, min(max(least, count // _BLOCK_MIN), _BLOCK_MAX) + 1):
        if count % blocks == 0:
            return count // blocks
    return 0


class ColumnSums:
    """The sum of the rows of (count, width)."""

    def __init__(self, count: int, width: int, *, alone: bool) -> None:
        block = block_of(count)
        if count * width < _LEAST or not _WIDTH_MIN <= width <= _WIDTH_MAX or not block:
            raise LibraryError("NumPy takes them")
        found = required()
        blocks = count // block
        self._width = width
        self._program = program = PrimitiveProgram(found, alone)
        ones, rows = dense(found, (1, 1, block)), dense(found, (blocks, block, width))
        sums, total = dense(found, (blocks, 1, width)), dense(found, (1, 1, width))
        first = program.outside(ones), program.outside(rows)
        if blocks == 1:
            self._add((ones, rows, total), (*first, program.outside(total)))
            return
        between = program.inside(sums)
        self._add((ones, rows, sums), (*first, between))
        ones, rows = dense(found, (1, 1, blocks)), dense(found, (1, blocks, width))
        last = program.outside(ones), program.within(between, rows, 0)
        self._add((ones, rows, total), (*last, program.outside(total)))

    def _add(self, forms: tuple[Handle, Handle, Handle], memories: tuple[int, int, int]) -> None:
        """A step: the product of the first two in the third."""
        found = self._program.library
        one, other, result = (form.value for form in forms)
        attrs = attributes(found)
        what = Description(found, "matmul", found.engine, one, other, None, result, attrs.value)
        self._program.step(what, dict(zip((SRC, WEIGHTS, DST), memories, strict=True)))

    def piece(self, rows: Array) -> Piece:
        """See `pieces`."""
        ones = FixedMemory(address(_ones), _ones)
        sources = (ones, 0, ~0) if self._program.given == 3 else (ones, 0, ones, ~0)
        result = Like((self._width,), FLOAT32)
        return Piece(((self._program, sources),), (Like.of(rows),), (result,), JointProgram)

    def __call__(self, rows: Array) -> Array:
        out = np.empty(self._width, FLOAT32)
        ones = address(_ones)
        given = (ones,) if self._program.given == 3 else (ones, ones)
        self._program(given[0], address(rows), *given[1:], address(out))
        return out


column_sums: Final = prepared(
    ColumnSums, lambda count, width: count * width / _ELEMENTS, LAYER_ALONE_MICROSECONDS
)


class BiasGradient:
    """The kernel of a bias's gradient."""

    def __init__(self, last: bool, otherwise: Callable[..., Any]) -> None:
        """
        last   whether channels come last
        """
        self._last = last
        self._otherwise = otherwise

    def _layer(self, gradients: Array) -> ColumnSums | None:
        if gradients.size < _LEAST or not is_plain(gradients):
            return None
        if gradients.ndim != 2 and not (self._last and gradients.ndim > 2):
            return None
        width = gradients.shape[-1]
        return column_sums(gradients.size // width, width)

    def piece(self, gradients: Array) -> Piece | None:
        layer = self._layer(gradients)
        return None if layer is None else layer.piece(gradients)

    def __call__(self, gradients: Array) -> Any:
        layer = self._layer(gradients)
        if layer is not None:
            return layer(gradients)
        if gradients.size < _LARGE or not gradients.flags.c_contiguous or library() is None:
            return self._otherwise(gradients)
        if gradients.ndim != 2 and not (self._last and gradients.ndim > 2):
            return self._otherwise(gradients)
        return _by_blas(gradients.reshape(-1, gradients.shape[-1]))


def _by_blas(rows: Array) -> Array:
    """The sum of the rows (N, C), C-contiguous: of parts that do not depend on how many cores take them."""
    count, width = rows.shape
    parts = slices(count, max(1, _LARGE // 2 // width))
    ones = np.ones(parts[0].stop, FLOAT32)
    sums = np.empty((len(parts), width), FLOAT32)

    def piece(number: int) -> None:
        part = rows[parts[number]]
        np.dot(ones[: len(part)], part, out=sums[number])

    spread(piece, len(parts))
    total: Array = np.add.reduce(sums, 0)
    return total
