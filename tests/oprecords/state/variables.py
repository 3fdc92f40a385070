"""Variables by reference."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

_MATRIX = np.arange(6.0).reshape(2, 3)
_SUMS = ("float32", "float64", "int32", "int64", "float16")
_NEW = [sample(_MATRIX, _MATRIX * 2 + 1), sample(1.0, 5.0), sample(np.zeros((0, 2)), np.zeros((0, 2)))]
_MISFIT = bad("InvalidArgumentError", "[3]", _MATRIX, [1.0, 2.0, 3.0])

RECORDS: Final = [
    OpRecord("Assign", _NEW, lambda ref, value: value, [_MISFIT], {"T": MOVED}, updates=True),
    OpRecord("AssignAdd", _NEW, np.add, [_MISFIT], {"T": _SUMS}, updates=True),
    OpRecord("AssignSub", _NEW, np.subtract, [_MISFIT], {"T": _SUMS}, updates=True),
    OpRecord("IsVariableInitialized", [sample(_MATRIX)], lambda ref: True, dtypes={"dtype": MOVED}),
    OpRecord(
        "CountUpTo",
        [sample(3, limit=5)],
        lambda ref: ref + 1,
        [bad("OutOfRangeError", "3", 3, limit=3)],
        updates=True,
    ),
]

#: {why they have no record: ops}
EXCUSED: Final = {
    "several steps show what the rest do: tests/kernels/test_state*.py": """
        DestroyTemporaryVariable TemporaryVariable Variable VariableV2
    """,
}
