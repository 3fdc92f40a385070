"""Variables by resource handle."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

_MATRIX = np.arange(6.0).reshape(2, 3)
_SUMS = ("float32", "float64", "int32", "int64", "float16")
_NEW = [sample(_MATRIX, _MATRIX * 2 + 1), sample(1.0, 5.0), sample(np.zeros((0, 2)), np.zeros((0, 2)))]
_MISFIT = bad("InvalidArgumentError", "[3]", _MATRIX, [1.0, 2.0, 3.0])


def _shape_of(x: Any) -> Any:
    return np.array(x.shape, np.int64)


RECORDS: Final = [
    OpRecord("AssignVariableOp", _NEW, lambda ref, value: value, dtypes={"dtype": MOVED}, updates=True),
    OpRecord("AssignAddVariableOp", _NEW, np.add, [_MISFIT], {"dtype": _SUMS}, updates=True),
    OpRecord("AssignSubVariableOp", _NEW, np.subtract, [_MISFIT], {"dtype": _SUMS}, updates=True),
    OpRecord(
        "ReadVariableOp",
        [sample(_MATRIX), sample(2.0)],
        lambda ref: ref,
        dtypes={"dtype": MOVED},
        differentiable=True,
    ),
    OpRecord(
        "VariableShape",
        [sample(_MATRIX), sample(2.0)],
        _shape_of,
    ),
    OpRecord("VarIsInitializedOp", [sample(_MATRIX)], lambda ref: True),
    OpRecord(
        "ResourceCountUpTo",
        [sample(3, limit=5)],
        lambda ref: ref + 1,
        [bad("OutOfRangeError", "3", 3, limit=3)],
        updates=True,
    ),
]

#: {why they have no record: ops}
EXCUSED: Final = {
    "several steps show what the rest do: tests/kernels/test_state*.py": """
        DestroyResourceOp DisableCopyOnRead VarHandleOp
    """,
}
