"""Matrices in gradient functions: products, adjoints, parts, and sums over the axes in front of them.

All of them are of batches: (..., M, N). Shapes in docstrings leave the batch out where nothing depends on it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape
from flowengine.gradients.backward import Backward, repeated_axes
from flowengine.graphs.tensor import Tensor

#: In `StridedSlice`: every element along an axis.
_ALL: Final = (None, None)


def real_type(dtype: DType) -> DType:
    """The type of a complex type's parts; any other as it is."""
    return {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)


def product(b: Backward, x: Tensor, y: Tensor, *, adjoint_x: bool = False, adjoint_y: bool = False) -> Tensor:
    """x y, or with the adjoints of either; outer dimensions broadcast."""
    result: Tensor = b.ops.BatchMatMulV2(x, y, adj_x=adjoint_x, adj_y=adjoint_y)
    return result


def turned(b: Backward, x: Tensor, *, conjugate: bool = False) -> Tensor:
    """The last two axes exchanged; with `conjugate` the adjoint, of complex numbers too."""
    rank = x.shape.rank
    order: Any
    if rank is None:
        last = b.ops.Rank(x)
        order = b.ops.ConcatV2(
            [
                b.ops.Range(0, b.ops.Sub(last, 2), 1),
                b.ops.Pack([b.ops.Sub(last, 1), b.ops.Sub(last, 2)]),
            ],
            0,
        )
    else:
        order = np.array([*range(rank - 2), rank - 1, rank - 2], np.int32)
    is_complex = conjugate and x.dtype.is_complex
    result: Tensor = (b.ops.ConjugateTranspose if is_complex else b.ops.Transpose)(x, order)
    return result


def adjoint(b: Backward, x: Tensor) -> Tensor:
    """The last two axes exchanged, and complex numbers conjugated."""
    return turned(b, x, conjugate=True)


def triangle(b: Backward, x: Tensor, *, lower: bool = True) -> Tensor:
    """The matrix with zeros above its diagonal, or below it."""
    below, above = (-1, 0) if lower else (0, -1)
    result: Tensor = b.ops.MatrixBandPart(x, np.int64(below), np.int64(above))
    return result


def halved_triangle(b: Backward, x: Tensor, *, lower: bool = True) -> Tensor:
    """A triangle with half of the diagonal: with its adjoint added, a Hermitian matrix of that triangle."""
    kept = triangle(b, x, lower=lower)
    result: Tensor = b.ops.MatrixSetDiag(kept, b.ops.Mul(b.ops.MatrixDiagPart(x), 0.5))
    return result


def hermitian(b: Backward, x: Tensor) -> Tensor:
    """The mean of a matrix and its adjoint."""
    result: Tensor = b.ops.Mul(b.ops.AddV2(x, adjoint(b, x)), 0.5)
    return result


def solved(
    b: Backward, factor: Tensor, right: Tensor, *, lower: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A X = B, or A^H X = B, for a triangle A."""
    result: Tensor = b.ops.MatrixTriangularSolve(factor, right, lower=lower, adjoint=adjoint)
    return result


def part(
    b: Backward,
    x: Tensor,
    rows: tuple[Any, Any] = _ALL,
    columns: tuple[Any, Any] = _ALL,
) -> Tensor:
    """x[..., rows, columns], each from a first place to behind the last one; None is an end of the axis."""
    bounds = (rows, columns)
    mask = {
        which: sum(2 << axis for axis, pair in enumerate(bounds) if pair[which] is None) for which in (0, 1)
    }
    begin, end = ([0, *(0 if pair[which] is None else pair[which] for pair in bounds)] for which in (0, 1))
    result: Tensor = b.ops.StridedSlice(
        x, begin, end, [1, 1, 1], begin_mask=mask[0], end_mask=mask[1], ellipsis_mask=1
    )
    return result


def column(b: Backward, x: Tensor) -> Tensor:
    """(...) -> (..., 1)"""
    result: Tensor = b.ops.ExpandDims(x, np.int32(-1))
    return result


def row(b: Backward, x: Tensor) -> Tensor:
    """(..., N) -> (..., 1, N)"""
    result: Tensor = b.ops.ExpandDims(x, np.int32(-2))
    return result


def sum_batches(b: Backward, grad: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """The gradient of the matrices `x` from that of an op that broadcasts the batches of `x` and `other`.

    grad   of the broadcast batch, its matrices already of the shape of those of `x`
    """
    axes = repeated_axes(_batch(x.shape), _batch(other.shape))
    if axes is not None:
        if not axes:
            return grad
        result: Tensor = b.ops.Reshape(b.ops.Sum(grad, np.array(axes, np.int32)), b.shape(x))
        return result
    axes_of_x, _ = b.ops.BroadcastGradientArgs(_batch_of(b, x), _batch_of(b, other))
    result = b.ops.Reshape(b.ops.Sum(grad, axes_of_x), b.shape(x))
    return result


def _batch(shape: TensorShape) -> TensorShape:
    return TensorShape(None if shape.dims is None else shape.dims[:-2])


def _batch_of(b: Backward, x: Tensor) -> Tensor:
    result: Tensor = b.ops.StridedSlice(b.shape(x), [0], [-2], [1], begin_mask=1)
    return result
