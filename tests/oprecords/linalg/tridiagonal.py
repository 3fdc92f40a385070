"""Matrices of three diagonals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_RANDOM: Final = np.random.default_rng(3)
_DIAGONALS: Final = _RANDOM.normal(size=(2, 3, 6))
_RIGHT: Final = _RANDOM.normal(size=(2, 6, 2))
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


def _solve(diagonals: Any, rhs: Any) -> Any:
    return np.linalg.solve(_matrix(*(diagonals[..., i, :] for i in range(3))), rhs)


def _product(upper: Any, main: Any, lower: Any, rhs: Any) -> Any:
    return _matrix(upper[..., 0, :], main[..., 0, :], lower[..., 0, :]) @ rhs


RECORDS: Final = [
    OpRecord(
        "TridiagonalSolve",
        [
            sample(_DIAGONALS, _RIGHT),
            sample(_STEADY, _RIGHT, partial_pivoting=False),
            sample(np.tile(_STEADY, (9, 1, 1)), np.tile(_RIGHT, (9, 1, 1)), partial_pivoting=False),
            sample(_NEEDS_PIVOTS, [[2.0], [3.0]]),
            sample([[7.0], [2.0], [9.0]], [[4.0, 2.0]]),
            sample(np.zeros((2, 3, 0)), np.zeros((2, 0, 1))),
            sample(np.zeros((0, 3, 2)), np.zeros((0, 2, 1))),
        ],
        _solve,
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
            sample(*(_DIAGONALS[:, i : i + 1] for i in range(3)), _RIGHT),
            sample([[7.0]], [[2.0]], [[9.0]], [[4.0, 2.0]]),
            sample(*[np.zeros((0, 1, 2))] * 3, np.zeros((0, 2, 1))),
        ],
        _product,
        [bad("InvalidArgumentError", "[1,2]", [[7.0]], [[2.0, 1.0]], [[9.0, 1.0]], [[4.0], [2.0]])],
        loose=4,
        differentiable=True,
    ),
]
