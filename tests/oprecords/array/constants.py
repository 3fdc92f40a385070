"""Constants, placeholders, repeated values, and values at given places of a background."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.elementwise import unary
from tests.oprecords.record import MOVED, OpRecord, bad, sample
from tests.oprecords.scatters import at

# Values that come from no input: constants, placeholders, tensors of one repeated value.

_M = np.arange(12.0).reshape(3, 4) - 3
_T = {"T": MOVED}

_OF_CONSTANTS: Final = [
    OpRecord(
        "Fill",
        [sample([2, 3], 7.0), sample(np.zeros((0,)), 1.0), sample([0, 2], 1.0)],
        lambda dims, value: np.full(tuple(dims), value),
        [bad("InvalidArgumentError", "-1", [-1], 1.0), bad("InvalidArgumentError", "", [[1]], 1.0)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Empty",
        [sample([2, 0], init=True, dtype="float32"), sample([3], init=True, dtype="int32")],
        lambda shape: np.zeros(tuple(shape)),
        [bad("InvalidArgumentError", "-1", [-1])],
        {"dtype": MOVED},
    ),
    OpRecord(
        "PlaceholderWithDefault",
        [sample(_M, shape=[None, 4])],
        lambda x: x,
        dtypes={"dtype": MOVED},
        partial=True,
        differentiable=True,
    ),
    unary("OnesLike", lambda x: np.ones(x.shape), differentiable=False),
    unary("ZerosLike", lambda x: np.zeros(x.shape), differentiable=False),
]

#: {why they have no record: ops}


# A constant background with values at given places.

_T_ONE_HOT = {"T": MOVED}


def _one_hot(i: Any, depth: Any, on: Any, off: Any, *, axis: int) -> Any:
    hit = np.expand_dims(i, axis) == np.arange(depth).reshape([-1] + [1] * (i.ndim if axis == 0 else 0))
    return np.where(hit, on, off)


def _sparse_to_dense(indices: Any, shape: Any, values: Any, default: Any) -> Any:
    result = np.full(tuple(np.atleast_1d(shape)), default)
    result[at(indices) if np.ndim(indices) == 2 else indices] = values
    return result


_OF_ONE_HOT: Final = [
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
        _T_ONE_HOT,
        differentiable=True,
    ),
]


RECORDS: Final = [*_OF_CONSTANTS, *_OF_ONE_HOT]

EXCUSED: Final = {
    "no inputs to sample, or nothing that comes out": "Const FakeParam Placeholder PlaceholderV2",
}
