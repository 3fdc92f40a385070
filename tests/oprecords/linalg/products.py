"""Products of matrices, and sums of products along named axes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import FLOATS, OpRecord, bad, sample

# Products of matrices and of tensors along named axes.

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

_OF_PRODUCTS: Final = [
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


# Sums of products along named axes.

_A_EINSUM: Final = np.arange(6).reshape(2, 3) - 2.0
_B_EINSUM: Final = np.arange(12).reshape(3, 4) / 2 - 2.0
_CUBE_EINSUM: Final = (np.arange(24).reshape(2, 3, 4) % 7) - 2.0
_DEEP: Final = (np.arange(36).reshape(3, 3, 2, 2) % 5) - 2.0


def _einsum(inputs: Any, *, equation: bytes) -> Any:
    left, _, right = equation.decode().partition("->")
    letters = "".join(dict.fromkeys(right.replace(".", "")))
    if len(letters) == len(right.replace(".", "")):
        return np.einsum(equation.decode(), *inputs)
    assert left.isalpha()
    once = np.einsum(f"{left}->{letters}", *inputs)
    sizes = dict(zip(letters, once.shape, strict=True))
    result = np.zeros([sizes[letter] for letter in right], once.dtype)
    for place in np.ndindex(*once.shape):
        result[tuple(place[letters.index(letter)] for letter in right)] = once[place]
    return result


def _of(equation: str, *inputs: Any) -> Any:
    return sample(list(inputs), equation=equation.encode(), N=len(inputs))


def _bad(message: str, equation: str, *inputs: Any) -> Any:
    return bad("InvalidArgumentError", message, list(inputs), equation=equation.encode(), N=len(inputs))


_OF_EINSUM: Final = [
    OpRecord(
        "Einsum",
        [
            _of("ij,jk->ik", _A_EINSUM, _B_EINSUM),
            _of("ij,jk->ki", _A_EINSUM, _B_EINSUM),
            _of("ij,ij->", _A_EINSUM, _A_EINSUM),
            _of("ij,ij->ij", _A_EINSUM, _A_EINSUM),
            _of("ij,kl->kjil", _A_EINSUM, _B_EINSUM),
            _of("bij,bjk->bik", _CUBE_EINSUM, _CUBE_EINSUM.swapaxes(1, 2)),
            _of("bij,bjk->ikb", _CUBE_EINSUM, _CUBE_EINSUM.swapaxes(1, 2)),
            _of("abc,cd->abd", _CUBE_EINSUM, _B_EINSUM.T),
            _of("abc,bc->a", _CUBE_EINSUM, _B_EINSUM),
            _of("...ij,jk->...ik", _CUBE_EINSUM, _B_EINSUM.T),
            _of("...a,...a->...", _CUBE_EINSUM, _B_EINSUM),
            _of("...,...->...", _CUBE_EINSUM, _B_EINSUM[:1]),
            _of("a...,b...->ab...", _A_EINSUM, _B_EINSUM[:2, :3]),
            _of("i...->...", _CUBE_EINSUM),
            _of("ijk->k", _CUBE_EINSUM),
            _of("ijk->kij", _CUBE_EINSUM),
            _of("iijj->ij", _DEEP),
            _of("iijj,jkk->ik", _DEEP, _DEEP[0, :2]),
            _of("iijk->", _DEEP),
            _of("ij->iji", _A_EINSUM),
            _of("ij->ij", np.zeros((0, 3))),
            _of("ij,jk->ik", np.zeros((2, 0)), np.zeros((0, 3))),
            _of(",ij->ij", 3.0, _A_EINSUM),
            _of(",->", 3.0, 2.0),
        ],
        _einsum,
        [
            _bad("ij,jk", "ij,jk", _A_EINSUM, _B_EINSUM),
            _bad("2", "ij->i", _A_EINSUM, _B_EINSUM),
            _bad("2", "ij,ik->jk", _A_EINSUM, _B_EINSUM),
            _bad("3", "ii->i", _A_EINSUM),
            _bad("3", "ijk->i", _A_EINSUM),
            _bad("no ellipsis", "...i->i", _A_EINSUM),
        ],
        {"T": ("float32", "float64", "bfloat16", "float16", "int32", "int64", "complex64", "complex128")},
        loose=8,
        differentiable=True,
    ),
]


def _masked(a: Any, b: Any, places: Any, transpose_a: Any, transpose_b: Any) -> Any:
    whole = (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    return whole[places[:, 0], places[:, 1]]


_A_MASKED: Final = np.arange(6.0).reshape(2, 3)
_B_MASKED: Final = np.arange(12.0).reshape(3, 4)
_PLACES_MASKED: Final = [[0, 1], [1, 3], [1, 3]]

_OF_MASKED: Final = [
    OpRecord(
        "MaskedMatmul",
        [
            sample(_A_MASKED, _B_MASKED, _PLACES_MASKED, False, False),
            sample(_A_MASKED.T, _B_MASKED, _PLACES_MASKED, True, False),
            sample(_A_MASKED, _B_MASKED.T, _PLACES_MASKED, False, True),
            sample(_A_MASKED, _B_MASKED, np.zeros((0, 2)), False, False),
        ],
        _masked,
        [
            bad("InvalidArgumentError", "row", _A_MASKED, _B_MASKED, [[2, 0]], False, False),
            bad("InvalidArgumentError", "column", _A_MASKED, _B_MASKED, [[0, -1]], False, False),
            bad("InvalidArgumentError", "inner", _A_MASKED, _B_MASKED.T, [[0, 0]], False, False),
            bad("InvalidArgumentError", "", _A_MASKED, _B_MASKED, [[0, 0, 0]], False, False),
            bad("InvalidArgumentError", "scalar", _A_MASKED, _B_MASKED, [[0, 0]], [True], False),
        ],
    ),
]


RECORDS: Final = [*_OF_PRODUCTS, *_OF_EINSUM, *_OF_MASKED]
