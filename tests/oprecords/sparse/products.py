"""Products and sums of sparse matrices, by entries or by rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import COMPLEX, HALVES, NUMBERS, OpRecord, bad, sample

# Products and sums of a sparse matrix and a dense one, beside those of two dense ones.

_A: Final = ([[2, 1], [0, 0], [2, 3], [2, 1]], [1.0, 2.0, -3.0, 4.0], [3, 4])
_B: Final = np.arange(8.0).reshape(4, 2) - 3
_RANDOM: Final = np.random.default_rng(0)
_LARGE: Final = (
    np.stack([_RANDOM.integers(0, 40, 300), _RANDOM.integers(0, 50, 300)], 1),
    _RANDOM.integers(-4, 5, 300),
    [40, 50],
)


def _adjoint(x: Any, wanted: bool) -> Any:
    return x.conj().T if wanted else x


def _mat_mul(indices: Any, values: Any, shape: Any, b: Any, *, adjoint_a: bool, adjoint_b: bool) -> Any:
    a = np.zeros(shape, values.dtype)
    np.add.at(a, tuple(indices.T), values)
    return _adjoint(a, adjoint_a) @ _adjoint(b, adjoint_b)


def _add(indices: Any, values: Any, shape: Any, b: Any) -> Any:
    out = b.copy()
    np.add.at(out, tuple(indices.T), values)
    return out


_OF_PRODUCTS: Final = [
    OpRecord(
        "SparseTensorDenseMatMul",
        [
            sample(*_A, _B),
            sample(*_A, _B.T, adjoint_b=True),
            sample(*_A, _B[:3], adjoint_a=True),
            sample(*_A, _B[:3].T, adjoint_a=True, adjoint_b=True),
            sample(*_LARGE, _RANDOM.integers(-4, 5, (50, 20))),
            sample(*_LARGE, _RANDOM.integers(-4, 5, (20, 40)), adjoint_a=True, adjoint_b=True),
            sample(np.zeros((0, 2)), np.zeros(0), [3, 4], _B),
            sample(np.zeros((0, 2)), np.zeros(0), [3, 0], _B[:0]),
        ],
        _mat_mul,
        [
            bad("InvalidArgumentError", "inner dimension", *_A, _B[:3]),
            bad("InvalidArgumentError", "[2]", *_A, _B[0]),
            bad("InvalidArgumentError", "2 elements", *_A[:2], [3], _B),
            bad("InvalidArgumentError", "a_indices[:,1][0] = 4", [[0, 4]], [1.0], [3, 4], _B),
            bad("InvalidArgumentError", "a_indices[:,0][0] = -1", [[-1, 0]], [1.0], [3, 4], _B),
        ],
        {"T": ["float32", "float64", "int32", *COMPLEX, *HALVES]},
        loose=10,
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseTensorDenseAdd",
        [
            sample(*_A, np.arange(12.0).reshape(3, 4)),
            sample([[1], [1]], [1.0, 2.0], [3], [1.0, 2.0, 3.0]),
            sample(np.zeros((0, 2)), np.zeros(0), [0, 4], np.zeros((0, 4))),
        ],
        _add,
        [
            bad("InvalidArgumentError", "broadcasting", *_A, _B),
            bad("InvalidArgumentError", "ranks", *_A, _B[0]),
            bad("InvalidArgumentError", "invalid index", [[3, 0]], [1.0], [3, 4], np.zeros((3, 4))),
        ],
        {"T": NUMBERS},
        differentiable=True,
    ),
]


# Sparse matrices by rows: products, sums, orders and factors.

#: {why they have no record: ops}


RECORDS: Final = [*_OF_PRODUCTS]

EXCUSED: Final = {
    "a variant is what another op makes or reads: tests/kernels/test_sparse_matrices.py": """
        SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixOrderingAMD
        SparseMatrixSparseCholesky SparseMatrixSparseMatMul
    """,
}
