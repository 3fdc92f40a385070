"""Systems of linear equations: square, triangular, banded, tridiagonal, over- and underdetermined."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, is_numpy
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import lapack
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.matrices import adjoint as adjoint_of
from flowengine.kernels.common.matrices import (
    check_batches,
    check_sides,
    cubic,
    matrices,
    square_matrices,
    unless_singular,
)
from flowengine.kernels.registry import kernel

_SINGULAR: Final = "Input matrix is not invertible."
_TYPES: Final = {"T": ("float32", "float64", "complex64", "complex128")}


@kernel("MatrixSolve", "BatchMatrixSolve", types=_TYPES, fresh=True, heavy=cubic(1.0))
def matrix_solve(xp: Any, matrix: Array, rhs: Array, *, adjoint: bool) -> Any:
    """X with A X = B, or A^H X = B; InvalidArgumentError for a singular A.

    matrix    A (..., M, M)
    rhs       B (..., M, K)
    returns   X (..., M, K)
    """
    check_sides(square_matrices(matrix), rhs, matrix.shape[-1])
    check_batches(matrix, rhs)
    if not rhs.size:
        return xp.zeros(rhs.shape, rhs.dtype)
    return unless_singular(
        xp, xp.linalg.solve, adjoint_of(xp, matrix) if adjoint else matrix, rhs, message=_SINGULAR
    )


#: Above so many rows a triangle is worth a call that does not factorise it.
_FACTORED_ROWS_MAX: Final = 16


@kernel("MatrixTriangularSolve", "BatchMatrixTriangularSolve", types=_TYPES, fresh=True, heavy=cubic(0.5))
def matrix_triangular_solve(xp: Any, matrix: Array, rhs: Array, *, lower: bool, adjoint: bool) -> Any:
    """X with A X = B, or A^H X = B, where A is the lower or upper triangle of the matrix.

    Outer dimensions broadcast. InvalidArgumentError for a zero on the diagonal.
    """
    check_sides(square_matrices(matrix), rhs, matrix.shape[-1])
    batch = _broadcast(xp, matrix, rhs)
    rows, width = rhs.shape[-2:]
    if 0 in (*batch, rows, width):
        return xp.zeros((*batch, rows, width), rhs.dtype)
    refuse((matrix.diagonal(0, -2, -1) == 0).any(), lambda: InvalidArgumentError(_SINGULAR))
    if adjoint:
        matrix, lower = adjoint_of(xp, matrix), not lower
    if is_numpy(xp) and (rows > _FACTORED_ROWS_MAX or 0 in batch):
        flat = xp.broadcast_to(matrix, (*batch, rows, rows)).reshape(-1, rows, rows)
        sides = xp.broadcast_to(rhs, (*batch, rows, width)).reshape(-1, rows, width)
        return lapack.triangular_solve(flat, sides, lower=lower).reshape(*batch, rows, width)
    # The factors of an upper triangle are itself and 1: what is solved is the triangle, without pivots.
    # A lower one is an upper one from the other end.
    turn = -1 if lower else 1
    upper = (xp.tril if lower else xp.triu)(matrix)[..., ::turn, ::turn]
    try:
        return xp.linalg.solve(upper, rhs[..., ::turn, :])[..., ::turn, :]
    except ValueError as error:
        raise InvalidArgumentError(_SINGULAR) from error


def _broadcast(xp: Any, matrix: Array, right: Array) -> tuple[int, ...]:
    """The outer dimensions of both, broadcast."""
    if matrix.shape[:-2] == right.shape[:-2]:
        return matrix.shape[:-2]
    try:
        outer: tuple[int, ...] = xp.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    except ValueError:
        raise InvalidArgumentError(
            "In[0] and In[1] must have compatible batch dimensions: "
            f"{brackets(matrix.shape)} vs. {brackets(right.shape)}"
        ) from None
    return outer


@kernel("BandedTriangularSolve", device="CPU", types=_TYPES, fresh=True)
def banded_triangular_solve(bands: Array, rhs: Array, *, lower: bool, adjoint: bool) -> Array:
    """X with A X = B, or A^H X = B, where A is a triangle of few diagonals.

    bands     (..., K, M): the element of row i at place i; the main diagonal is the first of a lower
              triangle, the last of an upper one
    rhs       B (..., M, N), outer dimensions broadcast
    returns   X (..., M, N)

    For a CPU: TensorFlow has no kernel for GPUs.
    """
    for index, value in enumerate((bands, rhs)):
        if value.ndim < 2:
            raise InvalidArgumentError(f"In[{index}] ndims must be >= 2: {value.ndim}")
        if not value.size:
            raise InvalidArgumentError(f"In[{index}] must not be an empty tensor: {brackets(value.shape)}")
    batch = _broadcast(np, bands, rhs)
    kept, rows = bands.shape[-2:]
    if rhs.shape[-2] != rows:
        raise InvalidArgumentError(
            f"In[0] mismatch In[1] shape: {rows} vs. {rhs.shape[-2]}: {brackets(bands.shape)} "
            f"{brackets(rhs.shape)} {int(lower)} {int(adjoint)}"
        )
    if kept > rows:
        raise InvalidArgumentError(f"Number of bands {kept} cannot exceed the size of the matrix {rows}")
    if (bands[..., 0 if lower else -1, :] == 0).any():
        raise InvalidArgumentError(_SINGULAR)
    width = rhs.shape[-1]
    flat = np.broadcast_to(bands, (*batch, kept, rows)).reshape(-1, kept, rows)
    sides = np.broadcast_to(rhs, (*batch, rows, width)).reshape(-1, rows, width)
    return lapack.banded_solve(flat, sides, lower=lower, adjoint=adjoint).reshape(*batch, rows, width)


@kernel("MatrixSolveLs", "BatchMatrixSolveLs", device="CPU", types=_TYPES, fresh=True, heavy=cubic(15.0))
def matrix_solve_ls(matrix: Array, rhs: Array, l2_regularizer: Any, *, fast: bool) -> Array:
    """X with the least |A X - B|^2 + l |X|^2.

    matrix    A (..., M, N)
    rhs       B (..., M, K)
    returns   X (..., N, K)

    fast      by Cholesky's factors of A^H A + l, or A A^H + l; InvalidArgumentError where there are none.
              Else by singular values, the shortest X, whatever l is.

    For a CPU: TensorFlow has no kernel for GPUs.
    """
    if l2_regularizer.ndim:
        raise InvalidArgumentError(
            f"l2_regularizer must be scalar, got shape {brackets(l2_regularizer.shape)}"
        )
    weight = float(l2_regularizer)
    if weight < 0:
        raise InvalidArgumentError(f"l2_regularizer must be >= 0, but is {weight}")
    rows, columns = matrices(matrix).shape[-2:]
    check_sides(matrix, rhs, rows)
    check_batches(matrix, rhs)
    if 0 in (*rhs.shape, columns):
        return np.zeros((*rhs.shape[:-2], columns, rhs.shape[-1]), rhs.dtype)
    turned = adjoint_of(np, matrix)
    if not fast:
        # As Eigen's decomposition takes a column to be none.
        tolerance = np.finfo(matrix.dtype).eps * min(rows, columns)
        inverse: Array = np.linalg.pinv(matrix, rcond=tolerance)
        result: Array = inverse @ rhs
        return result
    few = turned @ matrix if rows >= columns else matrix @ turned
    few = few + weight * np.eye(few.shape[-1], dtype=few.dtype)
    try:
        factors = np.linalg.cholesky(few)
    except np.linalg.LinAlgError as error:
        remedy = "a larger l2_regularizer > 0" if rows >= columns else "an l2_regularizer > 0"
        raise InvalidArgumentError(
            "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide " + remedy
        ) from error
    solved = _by_cholesky(factors, turned @ rhs if rows >= columns else rhs)
    return solved if rows >= columns else turned @ solved


def _by_cholesky(factors: Array, right: Array) -> Array:
    """X with L L^H X = B."""
    half = matrix_triangular_solve(np, factors, right, lower=True, adjoint=False)
    result: Array = matrix_triangular_solve(np, factors, half, lower=True, adjoint=True)
    return result
