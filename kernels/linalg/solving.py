"""Systems of linear equations, and matrices of three diagonals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory, is_numpy
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

# Systems of linear equations: square, triangular, banded, tridiagonal, over- and underdetermined.

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


# Matrices of three diagonals.

_SINGULAR_DIAGONALS: Final = "The matrix is not invertible."
_NEEDS_PIVOTS: Final = (
    "The matrix is either not invertible, or requires pivoting. Try setting partial_pivoting = True."
)
#: Elements of right-hand sides that are eliminated and substituted in a microsecond.
_ELEMENTS_A_MICROSECOND: Final = 50.0


@kernel(
    "TridiagonalSolve",
    supports=lambda attrs: not attrs["perturb_singular"],
    fresh=True,
    heavy=lambda diagonals, rhs: rhs.size / _ELEMENTS_A_MICROSECOND,
)
def tridiagonal_solve(xp: Any, diagonals: Array, rhs: Array, *, partial_pivoting: bool) -> Array:
    """X with A X = B, by elimination with exchanges of neighbouring rows.

    diagonals   (..., 3, M): above the main one (its last element counts for nothing), the main one, below
                (its first element counts for nothing)
    rhs         B (..., M, K)

    InvalidArgumentError for a singular A, and without `partial_pivoting` where a row would have to be
    exchanged. Rows are exchanged all the same: what comes out is closer to X.
    """
    if matrices(diagonals).shape[-2] != 3:
        raise InvalidArgumentError(
            f"Expected diagonals to be provided as a matrix with 3 rows, got {diagonals.shape[-2]} rows."
        )
    rows = diagonals.shape[-1]
    if matrices(rhs, 1).shape[-2] != rows:
        raise InvalidArgumentError(
            "Expected the same number of left-hand sides and right-hand sides, got "
            f"{rows} and {rhs.shape[-2]}."
        )
    check_batches(diagonals, rhs)
    if not rhs.size:
        return xp.zeros(rhs.shape, rhs.dtype)  # type: ignore[no-any-return]
    flat = diagonals.reshape(-1, 3, rows)
    if not in_host_memory(flat):
        if not partial_pivoting and rows > 1:
            refuse(_zero_pivots(flat).any(), lambda: InvalidArgumentError(_NEEDS_PIVOTS))
        found: Array = _eliminated(xp, flat, rhs.reshape(-1, rows, rhs.shape[-1])).reshape(rhs.shape)
        return found
    if not partial_pivoting and rows > 1 and _meets_zero(flat):
        raise InvalidArgumentError(_NEEDS_PIVOTS)
    solved = lapack.tridiagonal_solve(flat, rhs.reshape(-1, rows, rhs.shape[-1]))
    if solved is None:
        raise InvalidArgumentError(_SINGULAR_DIAGONALS)
    return solved.reshape(rhs.shape)


#: From so many matrices on a step of the recurrence is taken for all of them at once.
_MANY: Final = 12


def _meets_zero(diagonals: Array) -> bool:
    """Whether elimination without exchanges of rows meets a pivot of zero in one of (B, 3, M)."""
    if len(diagonals) >= _MANY:
        return bool(_zero_pivots(diagonals).any())
    for upper_row, main_row, sub_row in diagonals.tolist():
        pivot = main_row[0]
        before = upper_row[0]
        for above, here, below in zip(upper_row[1:], main_row[1:], sub_row[1:], strict=True):
            if pivot == 0:
                return True
            pivot = here - below * (before / pivot)
            before = above
        if pivot == 0:
            return True
    return False


def _zero_pivots(diagonals: Array) -> Any:
    """In which of (B, 3, M) elimination without exchanges of rows meets a pivot of zero: bool (B,)."""
    upper, main, sub = (diagonals[:, i].T for i in range(3))
    pivots = main[0]
    found = pivots == 0
    for i in range(1, len(main)):
        pivots = main[i] - sub[i] * (upper[i - 1] / pivots)
        found = found | (pivots == 0)
    return found


def _eliminated(xp: Any, diagonals: Array, rhs: Array) -> Any:
    """(B, M, K): what solves (B, 3, M) and (B, M, K), a row of all matrices at a time.

    Of two neighbouring rows the one whose first number is larger becomes the upper one. A singular matrix
    is refused when the checks are read.
    """
    # A row: its numbers on and right of the diagonal, three at most, and its right-hand sides.
    rows = xp.concatenate([*(diagonals[:, row, :, None] for row in (2, 1, 0)), rhs], axis=2)
    rows[:, 0, 0], rows[:, -1, 2] = 0, 0
    none = xp.zeros_like(rows[:, 0, :1])
    lower = xp.concatenate([rows[:, 0, 1:3], none, rows[:, 0, 3:]], axis=1)
    done: list[Any] = []
    for i in range(1, rows.shape[1]):
        following = rows[:, i]
        swaps = xp.abs(following[:, :1]) > xp.abs(lower[:, :1])
        upper = xp.where(swaps, following, lower)
        below = xp.where(swaps, lower, following)
        rest = below - below[:, :1] / upper[:, :1] * upper
        done.append(upper)
        lower = xp.concatenate([rest[:, 1:3], none, rest[:, 3:]], axis=1)
    done.append(lower)
    pivots = xp.concatenate([row[:, :1] for row in done], axis=1)
    refuse((pivots == 0).any(), lambda: InvalidArgumentError(_SINGULAR_DIAGONALS))
    result = xp.empty_like(rhs)
    beside = after = xp.zeros_like(rhs[:, 0])
    for i in reversed(range(len(done))):
        row = done[i]
        beside, after = (row[:, 3:] - row[:, 1:2] * beside - row[:, 2:3] * after) / row[:, :1], beside
        result[:, i] = beside
    return result


@kernel("TridiagonalMatMul", fresh=True)
def tridiagonal_mat_mul(xp: Any, superdiag: Array, maindiag: Array, subdiag: Array, rhs: Array) -> Any:
    """A B for a matrix A of three diagonals.

    superdiag, maindiag, subdiag   (..., 1, M): the element of row i at place i; the last of the upper and the
                                   first of the lower diagonal count for nothing
    rhs                            B (..., M, N)
    """
    rows = matrices(rhs, 3).shape[-2]
    for index, diagonal in enumerate((superdiag, maindiag, subdiag)):
        if matrices(diagonal, index).shape[-2:] != (1, rows):
            raise InvalidArgumentError(
                f"Expected a diagonal of shape [1,{rows}] for a right-hand side of {rows} rows, got "
                f"{brackets(diagonal.shape[-2:])}"
            )
        check_batches(diagonal, rhs)
    upper, main, lower = (d.swapaxes(-1, -2) for d in (superdiag, maindiag, subdiag))
    result = main * rhs
    result[..., :-1, :] += upper[..., :-1, :] * rhs[..., 1:, :]
    result[..., 1:, :] += lower[..., 1:, :] * rhs[..., :-1, :]
    return result
