"""Systems of linear equations, and matrices of three diagonals."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import like_input, merge_dims, prefix, ranked_at_least, square_at

# Systems of linear equations.


@define("MatrixSolve(matrix, rhs: T) -> output: T", "adjoint: bool = false; T: linalgtype")
@define("BatchMatrixSolve(matrix, rhs: T) -> output: T", "adjoint: bool = false; T: {double, float}")
def solve(c: ShapeContext) -> Shapes:
    """(..., M, M), (..., M, K) -> (..., M, K)"""
    matrix, right = square_at(c, 0), ranked_at_least(c, 1, 2)
    if matrix.dims is None or right.dims is None:
        return [UNKNOWN_SHAPE]
    rows = merge_dims(matrix.dims[-1], right.dims[-2], "The rows of matrix and right-hand side")
    batch = prefix(matrix, -2).merge_with(prefix(right, -2))
    return [batch.concatenate(TensorShape([rows, right.dims[-1]]))]


@define(
    "MatrixTriangularSolve(matrix, rhs: T) -> output: T",
    "lower: bool = true; adjoint: bool = false; T: linalgtype",
)
@define(
    "BatchMatrixTriangularSolve(matrix, rhs: T) -> output: T",
    "lower: bool = true; adjoint: bool = false; T: {double, float}",
)
def triangular_solve(c: ShapeContext) -> Shapes:
    """(..., M, M), (..., M, K) -> (..., M, K), leading dimensions broadcast"""
    return _solved(square_at(c, 0), ranked_at_least(c, 1, 2))


@define(
    "BandedTriangularSolve(matrix, rhs: T) -> output: T",
    "lower: bool = true; adjoint: bool = false; T: linalgtype",
)
def banded_solve(c: ShapeContext) -> Shapes:
    """Bands (..., B, M), (..., M, K) -> (..., M, K), leading dimensions broadcast"""
    bands = ranked_at_least(c, 0, 2)
    if bands.dims is not None:
        count, rows = bands.dims[-2:]
        if count is not None and rows is not None and count > rows:
            raise InvalidArgumentError(f"Number of bands {count} cannot exceed the size of the matrix {rows}")
    return _solved(bands, ranked_at_least(c, 1, 2))


def _solved(matrix: TensorShape, right: TensorShape) -> Shapes:
    if matrix.dims is None or right.dims is None:
        return [UNKNOWN_SHAPE]
    rows = merge_dims(matrix.dims[-1], right.dims[-2], "The rows of matrix and right-hand side")
    batch = broadcast_shapes(prefix(matrix, -2), prefix(right, -2))
    return [batch.concatenate(TensorShape([rows, right.dims[-1]]))]


@define(
    "MatrixSolveLs(matrix, rhs: T, l2_regularizer: double) -> output: T", "T: linalgtype; fast: bool = true"
)
@define(
    "BatchMatrixSolveLs(matrix, rhs: T, l2_regularizer: double) -> output: T",
    "T: {double, float}; fast: bool = true",
)
def least_squares(c: ShapeContext) -> Shapes:
    """(..., M, N), (..., M, K) -> (..., N, K)"""
    matrix, right = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 2)
    if matrix.dims is None or right.dims is None:
        return [UNKNOWN_SHAPE]
    merge_dims(matrix.dims[-2], right.dims[-2], "The rows of matrix and right-hand side")
    batch = prefix(matrix, -2).merge_with(prefix(right, -2))
    return [batch.concatenate(TensorShape([matrix.dims[-1], right.dims[-1]]))]


# Matrices of three diagonals.


@define(
    "TridiagonalSolve(diagonals, rhs: T) -> output: T",
    "partial_pivoting: bool = true; perturb_singular: bool = false",
    "T: {double, float, complex64, complex128}",
    Newer(("perturb_singular",)),
)
def tridiagonal_solve(c: ShapeContext) -> Shapes:
    """Three diagonals (..., 3, M), (..., M, K) -> (..., M, K)"""
    diagonals, right = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 2)
    if diagonals.dims is not None:
        merge_dims(diagonals.dims[-2], 3, "The number of diagonals and 3")
    return [right]


define(
    "TridiagonalMatMul(superdiag, maindiag, subdiag, rhs: T) -> output: T",
    "T: {double, float, complex64, complex128}",
    shape=like_input(3),
)
