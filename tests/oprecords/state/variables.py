"""Variables, by reference and by resource handle."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

# Variables by reference.

_MATRIX = np.arange(6.0).reshape(2, 3)
_SUMS = ("float32", "float64", "int32", "int64", "float16")
_NEW = [sample(_MATRIX, _MATRIX * 2 + 1), sample(1.0, 5.0), sample(np.zeros((0, 2)), np.zeros((0, 2)))]
_MISFIT = bad("InvalidArgumentError", "[3]", _MATRIX, [1.0, 2.0, 3.0])

_OF_VARIABLES: Final = [
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


# Variables by resource handle.

_MATRIX_RESOURCE_VARIABLES = np.arange(6.0).reshape(2, 3)
_SUMS_RESOURCE_VARIABLES = ("float32", "float64", "int32", "int64", "float16")
_NEW_RESOURCE_VARIABLES = [
    sample(_MATRIX_RESOURCE_VARIABLES, _MATRIX_RESOURCE_VARIABLES * 2 + 1),
    sample(1.0, 5.0),
    sample(np.zeros((0, 2)), np.zeros((0, 2))),
]
_MISFIT_RESOURCE_VARIABLES = bad("InvalidArgumentError", "[3]", _MATRIX_RESOURCE_VARIABLES, [1.0, 2.0, 3.0])


def _shape_of(x: Any) -> Any:
    return np.array(x.shape, np.int64)


_OF_RESOURCE_VARIABLES: Final = [
    OpRecord(
        "AssignVariableOp",
        _NEW_RESOURCE_VARIABLES,
        lambda ref, value: value,
        dtypes={"dtype": MOVED},
        updates=True,
    ),
    OpRecord(
        "AssignAddVariableOp",
        _NEW_RESOURCE_VARIABLES,
        np.add,
        [_MISFIT_RESOURCE_VARIABLES],
        {"dtype": _SUMS_RESOURCE_VARIABLES},
        updates=True,
    ),
    OpRecord(
        "AssignSubVariableOp",
        _NEW_RESOURCE_VARIABLES,
        np.subtract,
        [_MISFIT_RESOURCE_VARIABLES],
        {"dtype": _SUMS_RESOURCE_VARIABLES},
        updates=True,
    ),
    OpRecord(
        "ReadVariableOp",
        [sample(_MATRIX_RESOURCE_VARIABLES), sample(2.0)],
        lambda ref: ref,
        dtypes={"dtype": MOVED},
        differentiable=True,
    ),
    OpRecord(
        "VariableShape",
        [sample(_MATRIX_RESOURCE_VARIABLES), sample(2.0)],
        _shape_of,
    ),
    OpRecord("VarIsInitializedOp", [sample(_MATRIX_RESOURCE_VARIABLES)], lambda ref: True),
    OpRecord(
        "ResourceCountUpTo",
        [sample(3, limit=5)],
        lambda ref: ref + 1,
        [bad("OutOfRangeError", "3", 3, limit=3)],
        updates=True,
    ),
]

#: {why they have no record: ops}


RECORDS: Final = [*_OF_VARIABLES, *_OF_RESOURCE_VARIABLES]

EXCUSED: Final = {
    "several steps show what the rest do: tests/kernels/test_variable_kernels.py": """
        DestroyTemporaryVariable TemporaryVariable Variable VariableV2 DestroyResourceOp
        DisableCopyOnRead VarHandleOp
    """,
}
