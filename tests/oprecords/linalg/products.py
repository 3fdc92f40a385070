"""Products of matrices and of tensors along named axes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import FLOATS, OpRecord, bad, sample

_CUBE = (np.arange(24).reshape(2, 3, 4) % 7) - 2.5


def _mat_mul(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    return (a.T if transpose_a else a) @ (b.T if transpose_b else b)


def _sparse_mat_mul(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    return _mat_mul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _batch_mat_mul(x: Any, y: Any, *, adj_x: bool, adj_y: bool) -> Any:
    x = np.conj(np.swapaxes(x, -1, -2)) if adj_x else x
    return x @ (np.conj(np.swapaxes(y, -1, -2)) if adj_y else y)


_A = np.arange(6).reshape(2, 3) - 2.0
_B = np.arange(12).reshape(3, 4) / 2 - 2.0
_PRODUCTS = [
    sample(_A, _B),
    sample(_A.T, _B, transpose_a=True),
    sample(_A, _B.T, transpose_b=True),
    sample(_A.T, _B.T, transpose_a=True, transpose_b=True),
]
_EMPTY_PRODUCTS = [sample(np.zeros((2, 0)), np.zeros((0, 3))), sample(np.zeros((0, 3)), _B)]
_STACKS = [
    sample(_CUBE, np.swapaxes(_CUBE, 1, 2)),
    sample(_CUBE, _CUBE, adj_x=True),
    sample(_CUBE, _CUBE, adj_y=True),
    sample(np.zeros((0, 2, 3)), np.zeros((0, 3, 1))),
]

RECORDS: Final = [
    OpRecord(
        "MatMul",
        [*_PRODUCTS, *_EMPTY_PRODUCTS],
        _mat_mul,
        [bad("InvalidArgumentError", "3", _A, _A), bad("InvalidArgumentError", "1", [1.0], _A)],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "SparseMatMul",
        [*_PRODUCTS, sample(_A, _B, a_is_sparse=True, b_is_sparse=True)],
        _sparse_mat_mul,
        [bad("InvalidArgumentError", "3", _A, _A)],
        dtypes={"Ta": ("float32", "bfloat16"), "Tb": ("float32", "bfloat16")},
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "BatchMatMul",
        _STACKS,
        _batch_mat_mul,
        [bad("InvalidArgumentError", "", _CUBE, _CUBE)],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "BatchMatMulV2",
        [*_STACKS, sample(_A, np.swapaxes(_CUBE, 1, 2)[:, :3, :])],
        _batch_mat_mul,
        [bad("InvalidArgumentError", "", _CUBE, _CUBE)],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "BatchMatMulV3",
        [*_STACKS, sample(_A, np.swapaxes(_CUBE, 1, 2)[:, :3, :])],
        _batch_mat_mul,
        [bad("InvalidArgumentError", "", _CUBE, _CUBE)],
        only=[
            *({"Ta": name, "Tb": name, "Tout": name} for name in (*FLOATS, "int32", "int64", "complex64")),
            {"Ta": "int8", "Tb": "uint8", "Tout": "int32"},
        ],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "Cross",
        [sample([[1.0, 2.0, 3.0]], [[-2.0, 0.5, 4.0]]), sample(np.zeros((0, 3)), np.zeros((0, 3)))],
        np.cross,
        [bad("InvalidArgumentError", "2", [1.0, 2.0], [1.0, 2.0])],
        {"T": (*FLOATS, "int32", "int64")},
        differentiable=True,
    ),
]
