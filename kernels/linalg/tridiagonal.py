"""Matrices of three diagonals."""

from __future__ import annotations

from typing import Any, Final

from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import lapack
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.matrices import check_batches, matrices
from flowengine.kernels.registry import kernel

_SINGULAR: Final = "The matrix is not invertible."
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
        raise InvalidArgumentError(_SINGULAR)
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

    Of two neighbouring rows the one whose first number is larger becomes the upper one. A singular matrix is
    refused when somebody looks.
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
    refuse((pivots == 0).any(), lambda: InvalidArgumentError(_SINGULAR))
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
