"""Values written to places of a tensor, and rows dealt out and put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample
from tests.oprecords.scatters import at, scattered_nd

# Values written to places of a tensor, giving a new tensor.

_M = np.arange(12.0).reshape(4, 3) - 3
_SUMS: dict[str, Sequence[str]] = {"T": ("float32", "float64", "int32", "float16", "complex64")}


def _scatter_nd(indices: Any, updates: Any, shape: Any) -> Any:
    result = np.zeros(tuple(shape), updates.dtype)
    np.add.at(result, at(indices), updates)
    return result


_ND = [
    sample(_M, [[2, 1], [0, 0]], [5.0, 7.0]),
    sample(_M, [[2, 1], [0, 0], [2, 1], [1, 1]], [-9.0, 7.0, -8.0, 0.0]),
    sample(_M, [[3]], [[4.0, 5.0, 6.0]]),
]
_BAD_ND = [bad("InvalidArgumentError", "4", _M, [[4, 0]], [1.0])]
_WIDE = ("float32", "float64", "float16")

_OF_SCATTER_VALUES: Final = [
    *[
        OpRecord(
            f"TensorScatter{name}",
            _ND,
            scattered_nd(ufunc),
            _BAD_ND,
            {"T": (*_WIDE, "int32")},
            differentiable=True,
        )
        for name, ufunc in (
            ("Update", None),
            ("Add", np.add),
            ("Sub", np.subtract),
            ("Max", np.maximum),
            ("Min", np.minimum),
        )
    ],
    OpRecord(
        "ScatterNd",
        [
            sample([[1], [3], [1]], [1.0, 2.0, 4.0], [5]),
            sample([[0, 1]], [7.0], [2, 2]),
            sample(np.zeros((0, 1)), np.zeros((0,)), [2]),
        ],
        _scatter_nd,
        [bad("InvalidArgumentError", "5", [[5]], [1.0], [5])],
        _SUMS,
        differentiable=True,
    ),
    OpRecord(
        "ScatterNdNonAliasingAdd", _ND, scattered_nd(np.add), _BAD_ND, {"T": _WIDE}, differentiable=True
    ),
]


# Rows dealt out to several tensors, and put together again.

_M_PARTITION = np.arange(12.0).reshape(4, 3) - 3
_T = {"T": MOVED}


def _stitch(indices: Any, data: Any) -> Any:
    rest = data[0].shape[indices[0].ndim :]
    result = np.zeros((max(int(i.max()) for i in indices if i.size) + 1, *rest), data[0].dtype)
    for i, d in zip(indices, data, strict=True):
        result[i] = d
    return result


_OF_PARTITION: Final = [
    OpRecord(
        "DynamicPartition",
        [
            sample(_M_PARTITION, [1, 0, 1, 3], num_partitions=4),
            sample(_M_PARTITION, np.zeros((4, 3)), num_partitions=1),
        ],
        lambda x, p, *, num_partitions: [x[p == i] for i in range(num_partitions)],
        [bad("InvalidArgumentError", "4", _M_PARTITION, [0, 4, 1, 1], num_partitions=2)],
        _T,
        partial=True,
        differentiable=True,
    ),
    *[
        OpRecord(
            op,
            [
                sample([[0, 3], [[1], [2]]], [_M_PARTITION[:2], _M_PARTITION[2:].reshape(2, 1, 3)]),
                sample([1, [0]], [1.0, [2.0]]),
            ],
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


RECORDS: Final = [*_OF_SCATTER_VALUES, *_OF_PARTITION]
