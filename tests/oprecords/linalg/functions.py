"""Inverses, determinants and other functions of square matrices."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tests.oprecords.record import TOLERANCE, OpRecord, bad, sample

_SQUARE: Final = np.random.default_rng(3).normal(size=(3, 4, 4)) + 2 * np.eye(4)
_POSITIVE: Final = _SQUARE @ _SQUARE.swapaxes(-1, -2) + np.eye(4)
_TURN: Final = np.array([[0.0, -1.0], [1.0, 0.0]])
_JORDAN: Final = np.array([[2.0, 1.0], [0.0, 2.0]])
_NONE: Final = [np.zeros((0, 3, 3)), np.zeros((2, 0, 0)), np.zeros((0, 0))]
_NOT_SQUARE: Final = bad("InvalidArgumentError", "square", np.ones((2, 3)))
_NO_MATRIX: Final = bad("InvalidArgumentError", "rank", np.ones(3))
_SINGULAR: Final = bad("InvalidArgumentError", "Input is not invertible.", [[1.0, 2.0], [2.0, 4.0]])
_LOST: Final = bad("InvalidArgumentError", "Input is not invertible.", [[np.nan]])


def _inverse(x: Any, *, adjoint: bool) -> Any:
    inverse = np.linalg.inv(x)
    return np.conj(inverse.swapaxes(-1, -2)) if adjoint else inverse


def _powers(x: Any) -> Any:
    """The series of the exponential function."""
    result = np.zeros_like(x) + np.eye(x.shape[-1])
    power = result
    for i in range(1, 80):
        power = power @ x / i
        result = result + power
    return result


def _is_root(outputs: Any, inputs: Any) -> None:
    (got,), (x,) = outputs, inputs
    tolerance = TOLERANCE[got.dtype.name] * 100
    finite = np.isfinite(got)
    assert finite.all() or not finite.any()
    if finite.all():
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide) @ got.astype(wide), x, tolerance, tolerance)
        assert (np.linalg.eigvals(got).real > -1e-3).all() if got.size else True
    else:
        assert not (np.linalg.eigvals(x).real > 0).all()


def _is_logarithm(outputs: Any, inputs: Any) -> None:
    (got,), (x,) = outputs, inputs
    tolerance = TOLERANCE[got.dtype.name] * 100
    np.testing.assert_allclose(_powers(got.astype(np.complex128)), x, tolerance, tolerance)
    if got.size:
        assert (np.abs(np.linalg.eigvals(got).imag) <= math.pi + 1e-3).all()


RECORDS: Final = [
    *[
        OpRecord(
            p + "MatrixInverse",
            [sample(_SQUARE), sample(_SQUARE, adjoint=True), *map(sample, _NONE)],
            _inverse,
            [_SINGULAR, _LOST, _NOT_SQUARE, _NO_MATRIX],
            {} if p else {"T": ("float32", "float64", "float16", "complex64", "complex128")},
            loose=20,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    *[
        OpRecord(
            p + "MatrixDeterminant",
            [sample(_SQUARE), sample([[1.0, 2.0], [2.0, 4.0]]), *map(sample, _NONE)],
            np.linalg.det,
            [_NOT_SQUARE, _NO_MATRIX],
            loose=20,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    OpRecord(
        "LogMatrixDeterminant",
        [sample(_SQUARE), sample([[1.0, 2.0], [2.0, 4.0]]), *map(sample, _NONE)],
        np.linalg.slogdet,
        [_NOT_SQUARE, _NO_MATRIX],
        loose=20,
        differentiable=True,
    ),
    OpRecord(
        "MatrixExponential",
        [sample(_SQUARE / 2), sample(_TURN), sample(_JORDAN), *map(sample, _NONE)],
        _powers,
        [_NOT_SQUARE, _NO_MATRIX],
        loose=20,
        differentiable=True,
    ),
    OpRecord(
        "MatrixSquareRoot",
        [
            sample(_POSITIVE),
            sample(_TURN),
            sample(_JORDAN),
            sample([[-1.0]]),
            sample([[1.0, 2.0], [2.0, 1.0]]),
            sample(np.zeros((2, 2))),
            *map(sample, _NONE),
        ],
        bad=[_NOT_SQUARE, _NO_MATRIX],
        check=_is_root,
        differentiable=True,
    ),
    OpRecord(
        "MatrixLogarithm",
        [sample(_POSITIVE), sample(_TURN), sample(_JORDAN), sample(_SQUARE), *map(sample, _NONE)],
        bad=[_NOT_SQUARE, _NO_MATRIX],
        check=_is_logarithm,
        differentiable=True,
    ),
]
