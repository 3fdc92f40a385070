"""Sums of products along named axes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_A: Final = np.arange(6).reshape(2, 3) - 2.0
_B: Final = np.arange(12).reshape(3, 4) / 2 - 2.0
_CUBE: Final = (np.arange(24).reshape(2, 3, 4) % 7) - 2.0
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


RECORDS: Final = [
    OpRecord(
        "Einsum",
        [
            _of("ij,jk->ik", _A, _B),
            _of("ij,jk->ki", _A, _B),
            _of("ij,ij->", _A, _A),
            _of("ij,ij->ij", _A, _A),
            _of("ij,kl->kjil", _A, _B),
            _of("bij,bjk->bik", _CUBE, _CUBE.swapaxes(1, 2)),
            _of("bij,bjk->ikb", _CUBE, _CUBE.swapaxes(1, 2)),
            _of("abc,cd->abd", _CUBE, _B.T),
            _of("abc,bc->a", _CUBE, _B),
            _of("...ij,jk->...ik", _CUBE, _B.T),
            _of("...a,...a->...", _CUBE, _B),
            _of("...,...->...", _CUBE, _B[:1]),
            _of("a...,b...->ab...", _A, _B[:2, :3]),
            _of("i...->...", _CUBE),
            _of("ijk->k", _CUBE),
            _of("ijk->kij", _CUBE),
            _of("iijj->ij", _DEEP),
            _of("iijj,jkk->ik", _DEEP, _DEEP[0, :2]),
            _of("iijk->", _DEEP),
            _of("ij->iji", _A),
            _of("ij->ij", np.zeros((0, 3))),
            _of("ij,jk->ik", np.zeros((2, 0)), np.zeros((0, 3))),
            _of(",ij->ij", 3.0, _A),
            _of(",->", 3.0, 2.0),
        ],
        _einsum,
        [
            _bad("ij,jk", "ij,jk", _A, _B),
            _bad("2", "ij->i", _A, _B),
            _bad("2", "ij,ik->jk", _A, _B),
            _bad("3", "ii->i", _A),
            _bad("3", "ijk->i", _A),
            _bad("no ellipsis", "...i->i", _A),
        ],
        {"T": ("float32", "float64", "bfloat16", "float16", "int32", "int64", "complex64", "complex128")},
        loose=8,
        differentiable=True,
    ),
]
