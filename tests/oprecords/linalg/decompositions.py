"""Factorisations and functions of matrices and their batches."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tests.oprecords.record import TOLERANCE, OpRecord, bad, sample

# Factorisations of matrices and their batches.

_RANDOM: Final = np.random.default_rng(3)
_WIDE: Final = _RANDOM.normal(size=(2, 3, 5))
_TALL: Final = _RANDOM.normal(size=(2, 5, 3))
_SQUARE: Final = _RANDOM.normal(size=(3, 4, 4))
_POSITIVE: Final = _SQUARE @ _SQUARE.swapaxes(-1, -2) + np.eye(4)
_HERMITIAN: Final = _POSITIVE + 0.3j * (_SQUARE - _SQUARE.swapaxes(-1, -2))
_LARGE: Final = _RANDOM.normal(size=(40, 40))
_NONE: Final = [np.zeros((0, 3, 3)), np.zeros((2, 0, 0)), np.zeros((0, 0))]
_NOT_SQUARE: Final = bad("InvalidArgumentError", "square", np.ones((2, 3)))
_NO_MATRIX: Final = bad("InvalidArgumentError", "rank", np.ones(3))
_REALS: Final = {"T": ("float32", "float64")}


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _near(got: Any, want: Any, dtype: Any, loose: float = 30) -> None:
    tolerance = TOLERANCE[np.dtype(dtype).name] * loose
    np.testing.assert_allclose(got, want, tolerance, tolerance)


def _wide(*arrays: Any) -> list[Any]:
    return [a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in arrays]


def _is_unitary(matrix: Any, dtype: Any) -> None:
    inner = _adjoint(matrix) @ matrix
    _near(inner, np.broadcast_to(np.eye(inner.shape[-1]), inner.shape), dtype)


def _cholesky_grad(factor: Any, grad: Any) -> Any:
    """By the derivative of each element of the matrix."""
    result = np.zeros_like(factor)
    size = factor.shape[-1]
    inverse = np.linalg.inv(np.tril(factor))
    for i in range(size):
        for j in range(size):
            turned = np.zeros((size, size))
            turned[i, j] += 0.5
            turned[j, i] += 0.5
            inner = np.tril(inverse @ turned @ inverse.swapaxes(-1, -2))
            inner[..., range(size), range(size)] /= 2
            result[..., i, j] = (np.tril(grad) * (np.tril(factor) @ inner)).sum(axis=(-1, -2))
    return result


def _eigen(outputs: Any, inputs: Any, *, compute_v: bool) -> None:
    dtype = outputs[0].dtype
    (values, vectors), (x,) = _wide(*outputs), _wide(*inputs)
    lower = np.tril(x)
    whole = lower + _adjoint(np.tril(x, -1))
    assert values.shape == x.shape[:-1]
    _near(values, np.linalg.eigvalsh(whole), dtype)
    if compute_v:
        _is_unitary(vectors, dtype)
        _near(whole @ vectors, vectors * values[..., None, :], dtype)


def _eigen_packed(outputs: Any, inputs: Any) -> None:
    assert outputs[0].shape == (*inputs[0].shape[:-2], inputs[0].shape[-1] + 1, inputs[0].shape[-1])
    _eigen([outputs[0][..., 0, :], outputs[0][..., 1:, :]], inputs, compute_v=True)


def _eigen_general(outputs: Any, inputs: Any, *, compute_v: bool) -> None:
    dtype = outputs[0].dtype
    (values, vectors), (x,) = _wide(*outputs), _wide(*inputs)
    assert values.shape == x.shape[:-1]
    for got, matrix in (
        () if not x.size else zip(values.reshape(-1, x.shape[-1]), x.reshape(-1, *x.shape[-2:]), strict=True)
    ):
        _near(
            np.sort_complex(np.round(got, 3)),
            np.sort_complex(np.round(np.linalg.eigvals(matrix), 3)),
            dtype,
            1e3,
        )
    if compute_v:
        _near(x @ vectors, vectors * values[..., None, :], dtype)


def _svd(outputs: Any, inputs: Any, *, compute_uv: bool, full_matrices: bool) -> None:
    dtype = outputs[0].dtype
    (s, u, v), (x,) = _wide(*outputs), _wide(*inputs)
    rows, columns = x.shape[-2:]
    least = min(rows, columns)
    _near(s, np.linalg.svd(x, compute_uv=False), dtype)
    if not compute_uv:
        return
    assert u.shape[-2:] == (rows, rows if full_matrices else least)
    assert v.shape[-2:] == (columns, columns if full_matrices else least)
    _is_unitary(u, dtype)
    _is_unitary(v, dtype)
    _near(u[..., :least] * s[..., None, :] @ _adjoint(v[..., :least]), x, dtype)


def _qr(outputs: Any, inputs: Any, *, full_matrices: bool) -> None:
    dtype = outputs[0].dtype
    (q, r), (x,) = _wide(*outputs), _wide(*inputs)
    rows, columns = x.shape[-2:]
    inner = rows if full_matrices else min(rows, columns)
    assert (q.shape[-2:], r.shape[-2:]) == ((rows, inner), (inner, columns))
    _is_unitary(q, dtype)
    _near(q @ r, x, dtype)
    assert not np.tril(r, -1).any()


def _lu(outputs: Any, inputs: Any) -> None:
    dtype = outputs[0].dtype
    factors, order = outputs
    (factors,), (x,) = _wide(factors), _wide(*inputs)
    lower = np.tril(factors, -1) + np.eye(x.shape[-1])
    assert np.abs(lower).max(initial=0) <= 1 + 1e-6
    _near(lower @ np.triu(factors), np.take_along_axis(x, order[..., None].astype(int), -2), dtype)


_OF_DECOMPOSITIONS: Final = [
    *[
        OpRecord(
            p + "Cholesky",
            [
                sample(_POSITIVE),
                sample(_POSITIVE + np.triu(np.ones((4, 4)), 1)),
                *map(sample, _NONE),
                *([] if p else [sample(_HERMITIAN, T=t) for t in ("complex64", "complex128")]),
            ],
            lambda x: np.linalg.cholesky(x),
            [
                bad("InvalidArgumentError", "decomposition was not successful", [[1.0, 2.0], [2.0, 1.0]]),
                _NOT_SQUARE,
                _NO_MATRIX,
            ],
            _REALS,
            loose=20,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    *[
        OpRecord(
            p + "CholeskyGrad",
            [sample(np.linalg.cholesky(_POSITIVE), _SQUARE), *(sample(x, x) for x in _NONE)],
            _cholesky_grad,
            [bad("InvalidArgumentError", "square", np.ones((2, 3)), np.ones((2, 3)))],
            _REALS,
            loose=50,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    *[
        OpRecord(
            p + "SelfAdjointEigV2",
            [
                sample(_POSITIVE),
                sample(_SQUARE, compute_v=False),
                *map(sample, _NONE),
                *([] if p else [sample(_HERMITIAN, T=t) for t in ("complex64", "complex128")]),
            ],
            bad=[
                bad("InvalidArgumentError", "not successful", [[np.nan, 2.0], [2.0, 1.0]]),
                _NOT_SQUARE,
                _NO_MATRIX,
            ],
            dtypes=_REALS,
            check=_eigen,
            partial=True,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    *[
        OpRecord(
            p + "SelfAdjointEig",
            [sample(_POSITIVE), *map(sample, _NONE[:1])],
            bad=[_NOT_SQUARE, _NO_MATRIX],
            dtypes=_REALS,
            check=_eigen_packed,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    OpRecord(
        "Eig",
        [sample(_SQUARE), sample(_SQUARE, compute_v=False), *map(sample, _NONE)],
        bad=[_NOT_SQUARE, _NO_MATRIX],
        only=[
            {"T": "float32", "Tout": "complex64"},
            {"T": "float64", "Tout": "complex128"},
            {"T": "complex64", "Tout": "complex64"},
            {"T": "complex128", "Tout": "complex128"},
        ],
        check=_eigen_general,
        partial=True,
        differentiable=True,
    ),
    *[
        OpRecord(
            p + "Svd",
            [
                *(sample(x, full_matrices=full) for x in (_WIDE, _TALL, *_NONE) for full in (False, True)),
                sample(_WIDE, compute_uv=False),
                sample(np.zeros((0, 3)), full_matrices=True),
            ],
            bad=[_NO_MATRIX],
            check=_svd,
            partial=True,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    OpRecord(
        "Qr",
        [
            *(sample(x, full_matrices=full) for x in (_WIDE, _TALL, *_NONE) for full in (False, True)),
            sample(np.zeros((3, 0)), full_matrices=True),
        ],
        bad=[_NO_MATRIX],
        check=_qr,
        differentiable=True,
    ),
    OpRecord(
        "Lu",
        [sample(_SQUARE), sample(np.tile(_SQUARE, (9, 1, 1))), sample(_LARGE), *map(sample, _NONE)],
        bad=[
            bad("InvalidArgumentError", "not invertible", [[1.0, 2.0], [2.0, 4.0]]),
            bad("InvalidArgumentError", "not invertible", [[np.nan]]),
            _NOT_SQUARE,
            _NO_MATRIX,
        ],
        check=_lu,
        loose=100,
        differentiable=True,
    ),
]


# Inverses, determinants and other functions of square matrices.

_SQUARE_FUNCTIONS: Final = np.random.default_rng(3).normal(size=(3, 4, 4)) + 2 * np.eye(4)
_POSITIVE_FUNCTIONS: Final = _SQUARE_FUNCTIONS @ _SQUARE_FUNCTIONS.swapaxes(-1, -2) + np.eye(4)
_TURN: Final = np.array([[0.0, -1.0], [1.0, 0.0]])
_JORDAN: Final = np.array([[2.0, 1.0], [0.0, 2.0]])
_NONE_FUNCTIONS: Final = [np.zeros((0, 3, 3)), np.zeros((2, 0, 0)), np.zeros((0, 0))]
_NOT_SQUARE_FUNCTIONS: Final = bad("InvalidArgumentError", "square", np.ones((2, 3)))
_NO_MATRIX_FUNCTIONS: Final = bad("InvalidArgumentError", "rank", np.ones(3))
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


_OF_FUNCTIONS: Final = [
    *[
        OpRecord(
            p + "MatrixInverse",
            [
                sample(_SQUARE_FUNCTIONS),
                sample(_SQUARE_FUNCTIONS, adjoint=True),
                *map(sample, _NONE_FUNCTIONS),
            ],
            _inverse,
            [_SINGULAR, _LOST, _NOT_SQUARE_FUNCTIONS, _NO_MATRIX_FUNCTIONS],
            {} if p else {"T": ("float32", "float64", "float16", "complex64", "complex128")},
            loose=20,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    *[
        OpRecord(
            p + "MatrixDeterminant",
            [sample(_SQUARE_FUNCTIONS), sample([[1.0, 2.0], [2.0, 4.0]]), *map(sample, _NONE_FUNCTIONS)],
            np.linalg.det,
            [_NOT_SQUARE_FUNCTIONS, _NO_MATRIX_FUNCTIONS],
            loose=20,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    OpRecord(
        "LogMatrixDeterminant",
        [sample(_SQUARE_FUNCTIONS), sample([[1.0, 2.0], [2.0, 4.0]]), *map(sample, _NONE_FUNCTIONS)],
        np.linalg.slogdet,
        [_NOT_SQUARE_FUNCTIONS, _NO_MATRIX_FUNCTIONS],
        loose=20,
        differentiable=True,
    ),
    OpRecord(
        "MatrixExponential",
        [sample(_SQUARE_FUNCTIONS / 2), sample(_TURN), sample(_JORDAN), *map(sample, _NONE_FUNCTIONS)],
        _powers,
        [_NOT_SQUARE_FUNCTIONS, _NO_MATRIX_FUNCTIONS],
        loose=20,
        differentiable=True,
    ),
    OpRecord(
        "MatrixSquareRoot",
        [
            sample(_POSITIVE_FUNCTIONS),
            sample(_TURN),
            sample(_JORDAN),
            sample([[-1.0]]),
            sample([[1.0, 2.0], [2.0, 1.0]]),
            sample(np.zeros((2, 2))),
            *map(sample, _NONE_FUNCTIONS),
        ],
        bad=[_NOT_SQUARE_FUNCTIONS, _NO_MATRIX_FUNCTIONS],
        check=_is_root,
        differentiable=True,
    ),
    OpRecord(
        "MatrixLogarithm",
        [
            sample(_POSITIVE_FUNCTIONS),
            sample(_TURN),
            sample(_JORDAN),
            sample(_SQUARE_FUNCTIONS),
            *map(sample, _NONE_FUNCTIONS),
        ],
        bad=[_NOT_SQUARE_FUNCTIONS, _NO_MATRIX_FUNCTIONS],
        check=_is_logarithm,
        differentiable=True,
    ),
]


RECORDS: Final = [*_OF_DECOMPOSITIONS, *_OF_FUNCTIONS]
