"""Axes in another order, and elements reversed or rolled along them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

# Axes in another order.

_M = np.arange(12.0).reshape(3, 4) - 3
_CUBE = np.arange(24.0).reshape(2, 3, 4)
_T = {"T": MOVED}

_OF_TRANSPOSE: Final = [
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


# Elements in the opposite order, and rolled around.

_M_REVERSE = np.arange(12.0).reshape(4, 3) - 3
_CUBE_REVERSE = np.arange(24.0).reshape(2, 3, 4)
_T_REVERSE = {"T": MOVED}


def _reverse_sequence(x: Any, lengths: Any, *, seq_dim: int, batch_dim: int) -> Any:
    result = x.copy()
    for i, n in enumerate(lengths):
        take = [slice(None)] * x.ndim
        take[batch_dim], take[seq_dim] = slice(i, i + 1), slice(0, int(n))
        result[tuple(take)] = np.flip(x[tuple(take)], seq_dim)
    return result


_REVERSED = [
    sample(_CUBE_REVERSE, [0, -1]),
    sample(_M_REVERSE, np.zeros((0,))),
    sample(np.zeros((0, 2)), [1]),
]

_OF_REVERSE: Final = [
    OpRecord(
        "ReverseV2",
        _REVERSED,
        lambda x, a: np.flip(x, tuple(int(i) for i in a)),
        [
            bad("InvalidArgumentError", "3", _M_REVERSE, [3]),
            bad("InvalidArgumentError", "", _M_REVERSE, [0, 0]),
        ],
        _T_REVERSE,
        differentiable=True,
    ),
    OpRecord(
        "Reverse",
        [sample(_M_REVERSE, [True, False])],
        lambda x, d: np.flip(x, tuple(np.flatnonzero(d))),
        [bad("InvalidArgumentError", "", _M_REVERSE, [True])],
        {"T": ("float32", "int32", "bool", "complex64")},
        differentiable=True,
    ),
    OpRecord(
        "ReverseSequence",
        [sample(_M_REVERSE, [1, 3, 0, 2], seq_dim=1), sample(_M_REVERSE, [4, 2, 0], seq_dim=0, batch_dim=1)],
        _reverse_sequence,
        [bad("InvalidArgumentError", "5", _M_REVERSE, [5, 1, 1, 1], seq_dim=1)],
        _T_REVERSE,
        differentiable=True,
    ),
    OpRecord(
        "Roll",
        [sample(_M_REVERSE, [1, -2], [0, 1]), sample(_M_REVERSE, 5, 1), sample(np.zeros((0,)), 1, 0)],
        lambda x, s, a: np.roll(x, tuple(np.atleast_1d(s)), tuple(np.atleast_1d(a))),
        [bad("InvalidArgumentError", "2", _M_REVERSE, 1, 2)],
        _T_REVERSE,
        differentiable=True,
    ),
]


RECORDS: Final = [*_OF_TRANSPOSE, *_OF_REVERSE]
