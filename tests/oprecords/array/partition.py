"""Rows dealt out to several tensors, and put together again."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

_M = np.arange(12.0).reshape(4, 3) - 3
_T = {"T": MOVED}


def _stitch(indices: Any, data: Any) -> Any:
    rest = data[0].shape[indices[0].ndim :]
    result = np.zeros((max(int(i.max()) for i in indices if i.size) + 1, *rest), data[0].dtype)
    for i, d in zip(indices, data, strict=True):
        result[i] = d
    return result


RECORDS: Final = [
    OpRecord(
        "DynamicPartition",
        [sample(_M, [1, 0, 1, 3], num_partitions=4), sample(_M, np.zeros((4, 3)), num_partitions=1)],
        lambda x, p, *, num_partitions: [x[p == i] for i in range(num_partitions)],
        [bad("InvalidArgumentError", "4", _M, [0, 4, 1, 1], num_partitions=2)],
        _T,
        partial=True,
        differentiable=True,
    ),
    *[
        OpRecord(
            op,
            [sample([[0, 3], [[1], [2]]], [_M[:2], _M[2:].reshape(2, 1, 3)]), sample([1, [0]], [1.0, [2.0]])],
            _stitch,
            [*wrong],
            _T,
            partial=op.startswith("P"),
            differentiable=True,
        )
        for op, wrong in (
            ("DynamicStitch", [bad("InvalidArgumentError", "", [[0, 1]], [[1.0]])]),
            ("ParallelDynamicStitch", []),
        )
    ],
]
