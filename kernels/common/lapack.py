"""LAPACK's routines that NumPy does not hand on, through SciPy's bindings, which let go of the interpreter.

SciPy is imported when the first of them runs. Its bindings take one matrix a call: a batch is a loop, or,
where the matrices are bands, one matrix that has all of them along its diagonal.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

HOST: Final = "SciPy's bindings of LAPACK take NumPy's arrays; other libraries' kernels do without them"

#: A call through the bindings takes as long as some twelve calls of NumPy's functions for a row of a batch.
_CALLS_A_ROW: Final = 4


def is_worth_a_loop(count: int, rows: int) -> bool:
    """Whether `count` calls are quicker than going through the rows of all matrices at once."""
    return count <= _CALLS_A_ROW * rows


@cache
def _routine(name: str, dtype: np.dtype[Any]) -> Any:
    from scipy.linalg import lapack

    return getattr(lapack, {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}[dtype.str[1:]] + name)


def lu(matrices: Array) -> tuple[Array, Array]:
    """Factors (B, M, M) and the rows' order (B, M), by `getrf`; a pivot of zero is left to the caller."""
    getrf = _routine("getrf", matrices.dtype)
    factors = np.empty(matrices.shape, matrices.dtype)
    order = np.empty(matrices.shape[:2], np.int64)
    for matrix, target, rows in zip(matrices, factors, order, strict=True):
        target[...], swaps, _ = getrf(matrix)
        rows[:] = np.arange(len(rows))
        for row, other in enumerate(swaps.tolist()):
            if row != other:
                rows[row], rows[other] = rows[other], rows[row]
    return factors, order


def triangular_solve(matrices: Array, right: Array, *, lower: bool) -> Array:
    """(B, M, M), (B, M, K) -> (B, M, K), by `trtrs`; there is no zero on the diagonals."""
    trtrs = _routine("trtrs", matrices.dtype)
    result = np.empty(right.shape, right.dtype)
    for matrix, side, target in zip(matrices, right, result, strict=True):
        # Fortran's columns are our rows: the transposed matrix lies as it wants it.
        target[...] = trtrs(matrix.T, side, lower=not lower, trans=1)[0]
    return result


def tridiagonal_solve(diagonals: Array, right: Array) -> Array | None:
    """Diagonals (B, 3, M), (B, M, K) -> (B, M, K), by `gtsv`; None where a pivot is zero."""
    count, rows, width = right.shape
    sub, main, upper = (diagonals[:, i].copy() for i in (2, 1, 0))
    if count * rows == 1:  # for which SciPy has no empty diagonals
        return None if main.item() == 0 else right / main[..., None]
    # No row of one matrix has to do with the last of the one before.
    sub[:, 0] = 0
    upper[:, -1] = 0
    gtsv = _routine("gtsv", diagonals.dtype)
    result, failed = gtsv(
        sub.reshape(-1)[1:], main.reshape(-1), upper.reshape(-1)[:-1], right.reshape(-1, width)
    )[-2:]
    if failed > 0:
        return None
    solved: Array = np.ascontiguousarray(result).reshape(right.shape)
    if count > 1 and not np.isfinite(solved).all():
        # What is not finite has reached other matrices, zero times infinity being NaN.
        each = [tridiagonal_solve(diagonals[i : i + 1], right[i : i + 1]) for i in range(count)]
        found = [part for part in each if part is not None]
        return np.concatenate(found) if len(found) == count else None
    return solved


def banded_solve(bands: Array, right: Array, *, lower: bool, adjoint: bool) -> Array:
    """Triangles by their bands (B, K, M), (B, M, N) -> (B, M, N), by `tbtrs`.

    A band has the element of row i at place i: for lower triangles the diagonal is the first band, for upper
    ones the last. `adjoint` solves with the triangle's adjoint.
    """
    count, kept, rows = bands.shape
    width = right.shape[-1]
    # What stands before the first column, or after the last, belongs to no element.
    places, distance = np.arange(rows), np.arange(kept)[:, None]
    outside = places < distance if lower else places >= rows - (kept - 1 - distance)
    joined = np.where(outside, bands.dtype.type(0), bands).transpose(1, 0, 2).reshape(kept, count * rows)
    # LAPACK's bands go by columns: ours, upside down, are those of the transposed matrix.
    stored = np.conjugate(joined[::-1]) if adjoint else joined[::-1]
    solved = _routine("tbtrs", bands.dtype)(
        stored, right.reshape(count * rows, width), uplo="U" if lower else "L", trans="N" if adjoint else "T"
    )[0]
    result: Array = np.ascontiguousarray(solved).reshape(right.shape)
    if count > 1 and not np.isfinite(result).all():
        # What is not finite has reached other matrices, zero times infinity being NaN.
        parts = [slice(i, i + 1) for i in range(count)]
        each = [banded_solve(bands[p], right[p], lower=lower, adjoint=adjoint) for p in parts]
        return np.concatenate(each)
    return result


def schur(matrices: Array) -> tuple[Array, Array]:
    """Complex (B, M, M) -> upper triangles T and unitary Z with A = Z T Z^H, by `gees`."""
    gees = _routine("gees", matrices.dtype)
    triangles, vectors = np.empty_like(matrices), np.empty_like(matrices)
    for matrix, triangle, unitary in zip(matrices, triangles, vectors, strict=True):
        triangle[...], _, _, unitary[...] = gees(_no_order, matrix)[:4]
    return triangles, vectors


def _no_order(value: Any) -> None:
    """The order of eigenvalues does not matter."""


def exponential(matrices: Array) -> Array:
    """exp(A) of each of (B, M, M)."""
    from scipy.linalg import expm

    result: Array = expm(matrices)
    return result
