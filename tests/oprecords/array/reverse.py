"""Elements in the opposite order, and rolled around."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

_M = np.arange(12.0).reshape(4, 3) - 3
_CUBE = np.arange(24.0).reshape(2, 3, 4)
_T = {"T": MOVED}


def _reverse_sequence(x: Any, lengths: Any, *, seq_dim: int, batch_dim: int) -> Any:
    result = x.copy()
    for i, n in enumerate(lengths):
        take = [slice(None)] * x.ndim
        take[batch_dim], take[seq_dim] = slice(i, i + 1), slice(0, int(n))
        result[tuple(take)] = np.flip(x[tuple(take)], seq_dim)
    return result


_REVERSED = [sample(_CUBE, [0, -1]), sample(_M, np.zeros((0,))), sample(np.zeros((0, 2)), [1])]

RECORDS: Final = [
    OpRecord(
        "ReverseV2",
        _REVERSED,
        lambda x, a: np.flip(x, tuple(int(i) for i in a)),
        [bad("InvalidArgumentError", "3", _M, [3]), bad("InvalidArgumentError", "", _M, [0, 0])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Reverse",
        [sample(_M, [True, False])],
        lambda x, d: np.flip(x, tuple(np.flatnonzero(d))),
        [bad("InvalidArgumentError", "", _M, [True])],
        {"T": ("float32", "int32", "bool", "complex64")},
        differentiable=True,
    ),
    OpRecord(
        "ReverseSequence",
        [sample(_M, [1, 3, 0, 2], seq_dim=1), sample(_M, [4, 2, 0], seq_dim=0, batch_dim=1)],
        _reverse_sequence,
        [bad("InvalidArgumentError", "5", _M, [5, 1, 1, 1], seq_dim=1)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Roll",
        [sample(_M, [1, -2], [0, 1]), sample(_M, 5, 1), sample(np.zeros((0,)), 1, 0)],
        lambda x, s, a: np.roll(x, tuple(np.atleast_1d(s)), tuple(np.atleast_1d(a))),
        [bad("InvalidArgumentError", "2", _M, 1, 2)],
        _T,
        differentiable=True,
    ),
]
