"""Systems of linear equations, and matrices of three diagonals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

# Systems of linear equations.

_RANDOM: Final = np.random.default_rng(3)
_SQUARE: Final = _RANDOM.normal(size=(3, 4, 4)) + 3 * np.eye(4)
_LARGE: Final = _RANDOM.normal(size=(20, 20)) / 5 + 3 * np.eye(20)
_RIGHT: Final = _RANDOM.normal(size=(3, 4, 2))
_TALL: Final = _RANDOM.normal(size=(2, 5, 3))
_EMPTY: Final = [
    sample(np.zeros((0, 2, 2)), np.zeros((0, 2, 1))),
    sample(np.zeros((2, 0, 0)), np.zeros((2, 0, 1))),
    sample(_SQUARE, np.zeros((3, 4, 0))),
]
_FLAWED: Final = [
    bad("InvalidArgumentError", "matrix and r", np.eye(2), np.ones((3, 1))),
    bad("InvalidArgumentError", "square", np.ones((2, 3)), np.ones((2, 1))),
    bad("InvalidArgumentError", "rank", np.eye(2), np.ones(2)),
]
_BANDS: Final = _RANDOM.normal(size=(2, 3, 5)) + 3


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _solve(matrix: Any, rhs: Any, *, adjoint: bool) -> Any:
    return np.linalg.solve(_adjoint(matrix) if adjoint else matrix, rhs)


def _triangular(matrix: Any, rhs: Any, *, lower: bool, adjoint: bool) -> Any:
    return _solve(np.tril(matrix) if lower else np.triu(matrix), rhs, adjoint=adjoint)


def _banded(bands: Any, rhs: Any, *, lower: bool, adjoint: bool) -> Any:
    kept, rows = bands.shape[-2:]
    matrix = np.zeros((*bands.shape[:-2], rows, rows), bands.dtype)
    for i in range(rows):
        for band in range(kept):
            j = i - band if lower else i + kept - 1 - band
            if 0 <= j < rows:
                matrix[..., i, j] = bands[..., band, i]
    return _solve(matrix, rhs, adjoint=adjoint)


def _least_squares(matrix: Any, rhs: Any, weight: Any, *, fast: bool) -> Any:
    if 0 in (*rhs.shape, matrix.shape[-1]):
        return np.zeros((*rhs.shape[:-2], matrix.shape[-1], rhs.shape[-1]))
    if not fast or weight == 0:
        return np.linalg.pinv(matrix) @ rhs
    turned = _adjoint(matrix)
    return np.linalg.solve(turned @ matrix + weight * np.eye(matrix.shape[-1]), turned @ rhs)


_OF_SOLVING: Final = [
    *[
        OpRecord(
            p + "MatrixSolve",
            [sample(_SQUARE, _RIGHT), sample(_SQUARE, _RIGHT, adjoint=True), *_EMPTY],
            _solve,
            [
                bad("InvalidArgumentError", "not invertible", [[1.0, 2.0], [2.0, 4.0]], [[1.0], [1.0]]),
                bad("InvalidArgumentError", "not invertible", [[np.nan]], [[1.0]]),
                bad("InvalidArgumentError", "", np.ones((2, 1, 1)), np.ones((3, 1, 1))),
                *_FLAWED,
            ],
            loose=20,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    *[
        OpRecord(
            p + "MatrixTriangularSolve",
            [
                *(
                    sample(matrix, right, lower=lower, adjoint=adjoint)
                    for matrix, right in ((_SQUARE, _RIGHT), (_LARGE, _LARGE[:, :3]), (_SQUARE[0], _RIGHT))
                    for lower in (True, False)
                    for adjoint in (True, False)
                ),
                *_EMPTY,
            ],
            _triangular,
            [
                bad("InvalidArgumentError", "not invertible", [[1.0, 2.0], [2.0, 0.0]], [[1.0], [1.0]]),
                bad("InvalidArgumentError", "", np.ones((2, 1, 1)), np.ones((3, 1, 1))),
                *_FLAWED,
            ],
            loose=20,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    OpRecord(
        "BandedTriangularSolve",
        [
            *(
                sample(bands, _RANDOM.normal(size=(2, 5, 2)), lower=lower, adjoint=adjoint)
                for bands in (_BANDS, _BANDS[0], _BANDS[:, :1])
                for lower in (True, False)
                for adjoint in (True, False)
            ),
        ],
        _banded,
        [
            bad("InvalidArgumentError", "not invertible", [[1.0, 0.0]], [[1.0], [1.0]]),
            bad("InvalidArgumentError", "bands 3 cannot", np.ones((3, 2)), [[1.0], [1.0]]),
            bad("InvalidArgumentError", "In[1] must not be an empty", [[1.0, 0.0]], np.zeros((2, 0))),
            bad("InvalidArgumentError", "2 vs. 3", [[1.0, 1.0]], np.ones((3, 1))),
            bad("InvalidArgumentError", "In[0] ndims", [1.0], [[1.0]]),
            bad("InvalidArgumentError", "", np.ones((2, 1, 1)), np.ones((3, 1, 1))),
        ],
        loose=30,
        differentiable=True,
    ),
    *[
        OpRecord(
            p + "MatrixSolveLs",
            [
                *(
                    sample(matrix, right, weight, fast=fast)
                    for matrix, right in (
                        (_TALL, np.ones((2, 5, 2))),
                        (_TALL.swapaxes(-1, -2), np.ones((2, 3, 1))),
                        (np.zeros((0, 2, 2)), np.zeros((0, 2, 1))),
                        (np.zeros((3, 0)), np.zeros((3, 1))),
                    )
                    for weight in (0.0, 0.5)
                    for fast in (True, False)
                ),
                sample([[1.0, 2.0], [2.0, 4.0]], [[1.0], [1.0]], 0.0, fast=False),
            ],
            _least_squares,
            [
                bad("InvalidArgumentError", "a larger", [[1.0, 2.0], [2.0, 4.0]], [[1.0], [1.0]], 0.0),
                bad("InvalidArgumentError", "an l2_reg", np.ones((2, 3)), [[1.0], [1.0]], 0.0),
                bad("InvalidArgumentError", ">= 0, but is -1", np.eye(2), [[1.0], [1.0]], -1.0),
                bad("InvalidArgumentError", "must be scalar", np.eye(2), [[1.0], [1.0]], [1.0]),
            ],
            loose=300,
            differentiable=("matrix", "rhs"),
        )
        for p in ("", "Batch")
    ],
]


# Matrices of three diagonals.

_RANDOM_TRIDIAGONAL: Final = np.random.default_rng(3)
_DIAGONALS: Final = _RANDOM_TRIDIAGONAL.normal(size=(2, 3, 6))
_RIGHT_TRIDIAGONAL: Final = _RANDOM_TRIDIAGONAL.normal(size=(2, 6, 2))
_STEADY: Final = _DIAGONALS + np.array([[0], [5], [0]])
_NEEDS_PIVOTS: Final = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]


def _matrix(upper: Any, main: Any, lower: Any) -> Any:
    size = main.shape[-1]
    matrix = np.zeros((*main.shape[:-1], size, size), main.dtype)
    i = np.arange(size)
    matrix[..., i, i] = main
    matrix[..., i[:-1], i[1:]] = upper[..., :-1]
    matrix[..., i[1:], i[:-1]] = lower[..., 1:]
    return matrix


def _solve_tridiagonal(diagonals: Any, rhs: Any) -> Any:
    return np.linalg.solve(_matrix(*(diagonals[..., i, :] for i in range(3))), rhs)


def _product(upper: Any, main: Any, lower: Any, rhs: Any) -> Any:
    return _matrix(upper[..., 0, :], main[..., 0, :], lower[..., 0, :]) @ rhs


_OF_TRIDIAGONAL: Final = [
    OpRecord(
        "TridiagonalSolve",
        [
            sample(_DIAGONALS, _RIGHT_TRIDIAGONAL),
            sample(_STEADY, _RIGHT_TRIDIAGONAL, partial_pivoting=False),
            sample(
                np.tile(_STEADY, (9, 1, 1)), np.tile(_RIGHT_TRIDIAGONAL, (9, 1, 1)), partial_pivoting=False
            ),
            sample(_NEEDS_PIVOTS, [[2.0], [3.0]]),
            sample([[7.0], [2.0], [9.0]], [[4.0, 2.0]]),
            sample(np.zeros((2, 3, 0)), np.zeros((2, 0, 1))),
            sample(np.zeros((0, 3, 2)), np.zeros((0, 2, 1))),
        ],
        _solve_tridiagonal,
        [
            bad(
                "InvalidArgumentError",
                "requires pivoting",
                _NEEDS_PIVOTS,
                [[2.0], [3.0]],
                partial_pivoting=False,
            ),
            bad(
                "InvalidArgumentError",
                "requires pivoting",
                np.tile(_NEEDS_PIVOTS, (20, 1, 1)),
                np.ones((20, 2, 1)),
                partial_pivoting=False,
            ),
            bad("InvalidArgumentError", "not invertible", [[0.0], [0.0], [0.0]], [[2.0]]),
            bad("InvalidArgumentError", "not invertible", np.ones((3, 2)), [[2.0], [3.0]]),
            bad("InvalidArgumentError", "3", np.ones((2, 2)), [[2.0], [3.0]]),
            bad("InvalidArgumentError", "got 2 and 3", np.ones((3, 2)), np.ones((3, 1))),
        ],
        loose=50,
        differentiable=True,
    ),
    OpRecord(
        "TridiagonalMatMul",
        [
            sample(*(_DIAGONALS[:, i : i + 1] for i in range(3)), _RIGHT_TRIDIAGONAL),
            sample([[7.0]], [[2.0]], [[9.0]], [[4.0, 2.0]]),
            sample(*[np.zeros((0, 1, 2))] * 3, np.zeros((0, 2, 1))),
        ],
        _product,
        [bad("InvalidArgumentError", "[1,2]", [[7.0]], [[2.0, 1.0]], [[9.0, 1.0]], [[4.0], [2.0]])],
        loose=4,
        differentiable=True,
    ),
]


RECORDS: Final = [*_OF_SOLVING, *_OF_TRIDIAGONAL]
