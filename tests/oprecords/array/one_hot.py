"""A constant background with values at given places."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample
from tests.oprecords.scatters import at

_T = {"T": MOVED}


def _one_hot(i: Any, depth: Any, on: Any, off: Any, *, axis: int) -> Any:
    hit = np.expand_dims(i, axis) == np.arange(depth).reshape([-1] + [1] * (i.ndim if axis == 0 else 0))
    return np.where(hit, on, off)


def _sparse_to_dense(indices: Any, shape: Any, values: Any, default: Any) -> Any:
    result = np.full(tuple(np.atleast_1d(shape)), default)
    result[at(indices) if np.ndim(indices) == 2 else indices] = values
    return result


RECORDS: Final = [
    OpRecord(
        "OneHot",
        [
            sample([0, 2, -1, 5], 3, 1.0, 0.0),
            sample([[0, 2]], 3, 5.0, -1.0, axis=0),
            sample(np.zeros((0,)), 3, 1.0, 0.0),
        ],
        _one_hot,
        [bad("InvalidArgumentError", "-1", [0], -1, 1.0, 0.0)],
        {"T": MOVED, "TI": ("int32", "int64", "uint8")},
    ),
    OpRecord(
        "SparseToDense",
        [sample([1, 3], [5], [5.0, 6.0], 0.0), sample([[0, 1], [1, 0]], [2, 2], 9.0, -1.0)],
        _sparse_to_dense,
        [
            bad("InvalidArgumentError", "7", [7], [5], [1.0], 0.0),
            bad("InvalidArgumentError", "", [3, 1], [5], [1.0, 2.0], 0.0),
        ],
        _T,
        differentiable=True,
    ),
]
