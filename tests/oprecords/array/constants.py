"""Values that come from no input: constants, placeholders, tensors of one repeated value."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.elementwise import unary
from tests.oprecords.record import MOVED, OpRecord, bad, sample

_M = np.arange(12.0).reshape(3, 4) - 3
_T = {"T": MOVED}

RECORDS: Final = [
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
EXCUSED: Final = {
    "no inputs to sample, or nothing that comes out": """
        Const FakeParam Placeholder PlaceholderV2
    """,
}
