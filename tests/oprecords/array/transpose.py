"""Axes in another order."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

_M = np.arange(12.0).reshape(3, 4) - 3
_CUBE = np.arange(24.0).reshape(2, 3, 4)
_T = {"T": MOVED}

RECORDS: Final = [
    OpRecord(
        "Transpose",
        [sample(_CUBE, [2, 0, 1]), sample(_M, [0, 1]), sample(1.0, np.zeros((0,)))],
        lambda x, p: np.transpose(x, tuple(p)),
        [bad("InvalidArgumentError", "", _M, [0, 0]), bad("InvalidArgumentError", "", _M, [0])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "ConjugateTranspose",
        [sample(_CUBE, [2, 0, 1])],
        lambda x, p: np.conj(np.transpose(x, tuple(p))),
        [bad("InvalidArgumentError", "", _M, [0, 2])],
        {"T": ("float32", "complex64", "complex128")},
        differentiable=True,
    ),
    OpRecord(
        "InvertPermutation",
        [sample([3, 4, 0, 2, 1]), sample(np.zeros((0,)))],
        lambda p: np.argsort(p),
        [bad("InvalidArgumentError", "3", [0, 3]), bad("InvalidArgumentError", "", [0, 0])],
    ),
]
