"""What one node does to a variable."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, Sample, bad, sample, strings

_M = np.arange(6.0).reshape(2, 3)
_SUMS = ("float32", "float64", "int32", "int64", "float16")
_NEW = [sample(_M, _M * 2 + 1), sample(1.0, 5.0), sample(np.zeros((0, 2)), np.zeros((0, 2)))]
_MISFIT = bad("InvalidArgumentError", "[3]", _M, [1.0, 2.0, 3.0])


def _shape_of(x: Any) -> Any:
    return np.array(x.shape, np.int64)


RECORDS = [
    OpRecord("Assign", _NEW, lambda ref, value: value, [_MISFIT], {"T": MOVED}, updates=True),
    OpRecord("AssignAdd", _NEW, np.add, [_MISFIT], {"T": _SUMS}, updates=True),
    OpRecord("AssignSub", _NEW, np.subtract, [_MISFIT], {"T": _SUMS}, updates=True),
    OpRecord("AssignVariableOp", _NEW, lambda ref, value: value, dtypes={"dtype": MOVED}, updates=True),
    OpRecord("AssignAddVariableOp", _NEW, np.add, [_MISFIT], {"dtype": _SUMS}, updates=True),
    OpRecord("AssignSubVariableOp", _NEW, np.subtract, [_MISFIT], {"dtype": _SUMS}, updates=True),
    OpRecord(
        "ReadVariableOp",
        [sample(_M), sample(2.0)],
        lambda ref: ref,
        dtypes={"dtype": MOVED},
        differentiable=True,
    ),
    OpRecord(
        "VariableShape",
        [sample(_M), sample(2.0)],
        _shape_of,
    ),
    OpRecord("RefIdentity", [sample(_M), sample(2.0)], lambda ref: ref, dtypes={"T": MOVED}),
    OpRecord("DebugGradientRefIdentity", [sample(_M)], lambda ref: ref, dtypes={"T": MOVED}),
    OpRecord("IsVariableInitialized", [sample(_M)], lambda ref: True, dtypes={"dtype": MOVED}),
    OpRecord("VarIsInitializedOp", [sample(_M)], lambda ref: True),
    OpRecord(
        "CountUpTo",
        [sample(3, limit=5)],
        lambda ref: ref + 1,
        [bad("OutOfRangeError", "3", 3, limit=3)],
        updates=True,
    ),
    OpRecord(
        "ResourceCountUpTo",
        [sample(3, limit=5)],
        lambda ref: ref + 1,
        [bad("OutOfRangeError", "3", 3, limit=3)],
        updates=True,
    ),
    OpRecord(
        "StringJoin",
        [Sample(([strings(b"a", b"b"), strings(b"x", b"")],), {"separator": "-"}, [strings(b"a-x", b"b-")])],
        bad=[bad("InvalidArgumentError", "", [strings(b"a", b"b"), strings(b"x")])],
    ),
    OpRecord(
        "StringToHashBucketFast", [Sample((strings(b"a", b"b", b""),), {"num_buckets": 1}, [[0, 0, 0]])]
    ),
    OpRecord("StringToHashBucket", [Sample((strings(b"a", b"b", b""),), {"num_buckets": 1}, [[0, 0, 0]])]),
    OpRecord(
        "StringToHashBucketStrong",
        [Sample((strings(b"a", b"b"),), {"num_buckets": 1, "key": [1, 2]}, [[0, 0]])],
    ),
]
