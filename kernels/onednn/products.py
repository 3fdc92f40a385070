"""Products of matrices, single ones and batches.

NumPy keeps the small ones, which its BLAS does on one core. Larger ones it would spread over threads of its
own, which wait busily: beside OpenMP's they can stall each other for milliseconds, so oneDNN takes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.ir.graph import Node
from flowengine.kernels.onednn.layers.filters import AlignedConstants
from flowengine.kernels.onednn.library import LibraryError, address, library
from flowengine.kernels.onednn.objects import Description, attributes, dense_strides, strided
from flowengine.kernels.onednn.programs.constant_products import ROWS_MAX, constant_product
from flowengine.kernels.onednn.programs.matrix_product import matrix_product
from flowengine.kernels.onednn.programs.preparing import prepared, required
from flowengine.kernels.onednn.programs.program import DST, SRC, WEIGHTS, PrimitiveProgram, dense_array
from flowengine.kernels.onednn.programs.thin_products import (
    gives_large,
    large_factor,
    large_result,
    takes_large,
)
from flowengine.kernels.onednn.serving import FLOAT32, serves

#: Multiplications and additions up to which BLAS stays on one core, and is quicker to call.
SMALL: Final = 300_000
#: How many one core does in a microsecond.
_PRODUCTS: Final = 60_000.0
#: Multiplications and additions from which it matters to BLAS where a constant lies.
_ALIGNED_MIN: Final = 100_000
#: Batches of less, or of matrices with fewer rows or columns, gain nothing; a product of two vectors does.
_BATCH_SMALL: Final = 2_500_000
_SHORT: Final = 8
#: Elements up to which a batch is not looked at.
_UNSEEN: Final = 4_096

_float32: Final = np.dtype(np.float32)
_constants: Final = AlignedConstants()


def _side(matrix: Array, transposed: bool) -> tuple[Array, bool]:
    """A C-contiguous matrix, and whether it is read transposed."""
    if not matrix.flags.c_contiguous:
        if matrix.flags.f_contiguous:
            return matrix.T, not transposed
        matrix = np.ascontiguousarray(matrix)
    return matrix, transposed


def multiply_whole(a: Array, b: Array, out: Array) -> None:
    """out = a b for C-contiguous float32 matrices, by the product that may have something behind it."""
    layer = matrix_product(len(a), a.shape[1], b.shape[1], False, False)
    if layer is None:
        np.matmul(a, b, out=out)
    else:
        layer(a, b, out)


def multiply(a: Array, b: Array, out: Array, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    """out = a b for float32 matrices, each read transposed on demand; out is C-contiguous."""
    a, left = _side(a, transpose_a)
    b, right = _side(b, transpose_b)
    rows, columns = out.shape
    inner = a.size // rows
    if gives_large(rows, inner, columns):
        if large_result(a.T if left else a, b.T if right else b, out):
            return out
    elif not right and takes_large(rows, inner, columns) and large_factor(a.T if left else a, b, out):
        return out
    layer = matrix_product(rows, inner, columns, left, right)
    if layer is None:
        np.matmul(a.T if left else a, b.T if right else b, out=out)
    else:
        layer(a, b, out)
    return out


def _cost(a: Array, b: Array) -> float:
    width = b.shape[-1] if b.ndim else 1
    return float(a.size * width / _PRODUCTS)


@serves("MatMul", types=FLOAT32, heavy=_cost)
def mat_mul(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    left, right = bool(node.attrs["transpose_a"]), bool(node.attrs["transpose_b"])

    def compute(a: Array, b: Array) -> Any:
        if a.size * b.size <= SMALL or a.ndim != 2 or b.ndim != 2:
            return otherwise(a, b)
        rows, inner = a.shape[::-1] if left else a.shape
        depth, columns = b.shape[::-1] if right else b.shape
        if inner != depth:
            return otherwise(a, b)
        size = rows * inner * columns
        if size <= SMALL:
            if size > _ALIGNED_MIN and not b.flags.writeable:
                b = _constants.find(b)
            return otherwise(a, b)
        if library() is None:
            return otherwise(a, b)
        if rows <= ROWS_MAX and not b.flags.writeable and a.flags.c_contiguous:
            layer = constant_product(rows, inner, columns, left, right)
            if layer is not None:
                few: Array = np.empty((rows, columns), _float32)
                if layer(a, b, few):
                    return few
        out: Array = empty((rows, columns), _float32)
        return multiply(a, b, out, left, right)

    return compute


class BatchProduct:
    """(B, M, K) by (B, K, N), either side stored with its last two axes exchanged."""

    def __init__(
        self,
        x: tuple[int, ...],
        y: tuple[int, ...],
        adj_x: bool,
        adj_y: bool,
        *,
        alone: bool,
    ) -> None:
        found = required()
        batch = math.prod(x[:-2])
        rows, inner = x[:-3:-1] if adj_x else x[-2:]
        depth, columns = y[:-3:-1] if adj_y else y[-2:]
        if inner != depth or not batch * rows * columns * inner:
            raise LibraryError("nothing to multiply")
        if inner > 1 and (min(rows, columns) < _SHORT or batch * rows * columns * inner < _BATCH_SMALL):
            raise LibraryError("NumPy's loop over matrices is as quick")
        left, right = dense_strides((batch, *x[-2:])), dense_strides((batch, *y[-2:]))
        one = strided(found, (batch, rows, inner), _exchanged(left) if adj_x else left)
        other = strided(found, (batch, inner, columns), _exchanged(right) if adj_y else right)
        shape = (batch, rows, columns)
        result = strided(found, shape, dense_strides(shape))
        attrs = attributes(found)
        what = Description(
            *(found, "matmul", found.engine),
            *(one.value, other.value, None, result.value, attrs.value),
        )
        self.shape = (*x[:-2], rows, columns)
        self._program = program = PrimitiveProgram(found, alone)
        program.step(
            what,
            {
                SRC: program.outside(one),
                WEIGHTS: program.outside(other),
                DST: program.outside(result),
            },
        )

    def __call__(self, x: Array, y: Array) -> Array:
        out: Array = empty(self.shape, _float32)
        self._program(address(x), address(y), address(out))
        return out


def _exchanged(strides: tuple[int, ...]) -> tuple[int, ...]:
    return (*strides[:-2], strides[-1], strides[-2])


def _batch_work(x: tuple[int, ...], y: tuple[int, ...], adj_x: bool, adj_y: bool) -> float:
    return math.prod(x) * (y[-2] if adj_y else y[-1]) / _PRODUCTS


batch_product: Final = prepared(BatchProduct, _batch_work)


def _batch_cost(x: Array, y: Array) -> float:
    return x.size * (y.shape[-1] if y.ndim else 1) / _PRODUCTS


@serves("BatchMatMul", "BatchMatMulV2", types=FLOAT32, heavy=_batch_cost)
def batch_mat_mul(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    adj_x, adj_y = bool(node.attrs["adj_x"]), bool(node.attrs["adj_y"])

    def compute(x: Array, y: Array) -> Any:
        if (x.size <= _UNSEEN and y.size <= _UNSEEN) or x.ndim < 3 or x.shape[:-2] != y.shape[:-2]:
            return otherwise(x, y)
        layer = batch_product(x.shape, y.shape, adj_x, adj_y)
        if layer is None:
            return otherwise(x, y)
        return layer(dense_array(x), dense_array(y))

    return compute
