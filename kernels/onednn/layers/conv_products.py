"""Convolutions that multiply the input as it lies, by few rows: those are products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.kernels.common.pieces import FLOAT32, Like, Piece, Source, Want
from flowengine.kernels.onednn.layers.post_ops import attached
from flowengine.kernels.onednn.layers.shapes import WindowAttributes
from flowengine.kernels.onednn.library import LibraryError, address
from flowengine.kernels.onednn.objects import Description, attributes, dense
from flowengine.kernels.onednn.products import multiply, multiply_whole
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.preparing import LAYER_ALONE_MICROSECONDS, prepared, required
from flowengine.kernels.onednn.programs.program import DST, SRC, WEIGHTS, one_step

#: Rows up to which a convolution that is a product of matrices is computed as one: to bring the filters
#: into order would take longer than to use them.
_FEW_ROWS: Final = 64
#: Multiplications up to which NumPy computes it: a primitive takes a millisecond to make.
_TINY: Final = 4096
#: Multiplications and additions of one core in a microsecond.
_PRODUCTS: Final = 60_000.0


def product_sizes(
    sliding: WindowAttributes, x: tuple[int, ...], w: tuple[int, ...]
) -> tuple[int, int, int, tuple[int, ...]] | None:
    """(rows, depth, columns, output shape) of a convolution that only multiplies the input as it lies.

    That is one with windows of one element, or with one window that is as large as the input.
    """
    if sliding.first or sliding.depthwise or len(x) != 4 or len(w) != 4 or 0 in x or 0 in w:
        return None
    if x[3] != w[2] or sliding.padding == b"EXPLICIT":
        return None
    if w[:2] == (1, 1):
        if sliding.strides != (1, 1, 1, 1):
            return None
        return x[0] * x[1] * x[2], x[3], w[3], (*x[:3], w[3])
    if sliding.padding == b"VALID" and w[:2] == x[1:3] and sliding.dilations == (1, 1, 1, 1):
        return x[0], x[1] * x[2] * x[3], w[3], (x[0], 1, 1, w[3])
    return None


class FollowedProduct:
    """(M, K) by (K, N), and what is done to the result: see `after`."""

    def __init__(self, rows: int, depth: int, columns: int, forms: tuple[str, ...], *, alone: bool) -> None:
        library = required()
        one, other = dense(library, (rows, depth)), dense(library, (depth, columns))
        result, channel = dense(library, (rows, columns)), dense(library, (1, columns))
        after, operands = attached(forms, channel, dense(library, (1, 1)), result)
        attrs = attributes(library, after)
        what = Description(
            *(library, "matmul", library.engine),
            *(one.value, other.value, None, result.value, attrs.value),
        )
        self.program = one_step(what, alone, {SRC: one, WEIGHTS: other, **dict(operands), DST: result})

    def __call__(self, a: Array, b: Array, out: Array, *operands: Array) -> None:
        self.program(address(a), address(b), *map(address, operands), address(out))


def _work(rows: int, depth: int, columns: int, forms: tuple[str, ...]) -> float:
    return rows * depth * columns / _PRODUCTS


followed_product: Final = prepared(FollowedProduct, _work, LAYER_ALONE_MICROSECONDS)


class ConvolutionProduct:
    """A convolution that is a product of few rows."""

    def __init__(
        self,
        sizes: tuple[int, int, int],
        x: tuple[int, ...],
        w: tuple[int, ...],
        output: tuple[int, ...],
        forms: tuple[str, ...] = (),
    ) -> None:
        self._rows, self._depth, self._columns = sizes
        self.input, self.filters, self.output = x, w, output
        self._followed = followed_product(*sizes, forms) if forms else None
        if forms and self._followed is None:
            raise LibraryError("a product with nothing behind it")

    def forward(self, x: Array, w: Array, *operands: Array) -> Array:
        """The result; `operands` are those of the forms."""
        out: Array = empty((self._rows, self._columns), np.float32)
        a, b = x.reshape(self._rows, self._depth), w.reshape(self._depth, self._columns)
        if self._followed is not None:
            self._followed(a, b, out, *operands)
        else:
            multiply_whole(a, b, out)
        return out.reshape(self.output)

    def piece(self, x: Array, w: Array, operands: Sequence[Source], wants: Sequence[Want]) -> Piece | None:
        """See `pieces`; `operands` and `wants` are those of what follows."""
        if self._followed is None:
            return None
        return Piece(
            ((self._followed.program, (0, 1, *operands, ~0)),),
            (Like.of(x), Like.of(w), *wants),
            (Like(self.output, FLOAT32),),
            JointProgram,
        )

    def input_gradient(self, w: Array, gradient: Array) -> Array:
        out: Array = empty((self._rows, self._depth), np.float32)
        a, b = gradient.reshape(self._rows, self._columns), w.reshape(self._depth, self._columns)
        return multiply(a, b, out, False, True).reshape(self.input)

    def filter_gradient(self, x: Array, gradient: Array) -> Array:
        out: Array = empty((self._depth, self._columns), np.float32)
        a, b = x.reshape(self._rows, self._depth), gradient.reshape(self._rows, self._columns)
        return multiply(a, b, out, True, False).reshape(self.filters)


def is_few_rows(sizes: tuple[int, int, int], constant: bool) -> bool:
    """Whether a product of (rows, depth, columns) takes less than a convolution, or NumPy computes it.

    constant   whether the filters never change: they are in order, and a convolution is as quick
    """
    rows, depth, columns = sizes
    return rows * depth * columns <= _TINY or not (constant or rows > _FEW_ROWS)


def as_product(
    sliding: WindowAttributes,
    x: tuple[int, ...],
    w: tuple[int, ...],
    forms: tuple[str, ...] = (),
    constant: bool = False,
) -> ConvolutionProduct | None:
    """The convolution as a product of few rows, if it is one; LibraryError if NumPy's is as quick.

    forms      of what is done to the result, see `after`
    constant   whether the filters never change: they are in order, and a convolution is as quick
    """
    sizes = product_sizes(sliding, x, w)
    if sizes is None:
        return None
    rows, depth, columns, output = sizes
    if rows * depth * columns <= _TINY:
        raise LibraryError("a product that is too small")
    if not is_few_rows((rows, depth, columns), constant):
        return None
    return ConvolutionProduct((rows, depth, columns), x, w, output, forms)
