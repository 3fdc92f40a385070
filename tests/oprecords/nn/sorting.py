"""The greatest elements of rows, and whether a target is among them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


def _top_k(x: Any, k: Any) -> tuple[Any, Any]:
    order = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[..., : int(k)]
    return np.take_along_axis(x, order, -1), order


def _in_top_k(predictions: Any, targets: Any, k: Any) -> Any:
    chosen = np.take_along_axis(predictions, targets[:, None].astype(int), 1)
    return (predictions > chosen).sum(1) < k


_FEATURES = np.array([[0.1, 0.9, 0.3, 0.9], [0.7, 0.2, 0.2, 0.1]])

RECORDS: Final = [
    OpRecord(
        "TopKV2",
        [
            sample([[1.0, 4.0, 2.0, 4.0], [0.0, 3.0, 9.0, 5.0]], 2),
            sample([3.0, 1.0], 0),
            sample([3.0, 1.0], 2),
        ],
        _top_k,
        [bad("InvalidArgumentError", "3", [1.0, 2.0], 3), bad("InvalidArgumentError", "-1", [1.0, 2.0], -1)],
        dtypes={
            "T": ("float32", "float64"),
            "Tk": ("int32", "int16"),
            "index_type": ("int32", "int64", "int16"),
        },
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "TopK",
        [sample([[1.0, 4.0, 2.0, 4.0]], k=2)],
        lambda x, *, k: _top_k(x, k),
        [bad("InvalidArgumentError", "3", [1.0, 2.0], k=3)],
        differentiable=True,
    ),
    OpRecord(
        "NthElement",
        [sample([[3.0, 1.0, 2.0], [9.0, 8.0, 7.0]], 1), sample([3.0, 1.0, 2.0], 0, reverse=True)],
        lambda x, n, *, reverse: np.sort(x, -1)[..., -1 - int(n) if reverse else int(n)],
        [bad("InvalidArgumentError", "3", [1.0, 2.0], 3)],
        differentiable=True,
    ),
    OpRecord(
        "InTopKV2",
        [sample(_FEATURES, [3, 1], 2), sample(_FEATURES, [0, 3], 3)],
        _in_top_k,
        [
            bad("InvalidArgumentError", "", _FEATURES, [1, 2, 3], 2),
            bad("InvalidArgumentError", "predictions must be 2-dimensional", _FEATURES[0], [1], 2),
            bad("InvalidArgumentError", "targets must be 1-dimensional", _FEATURES, 1, 2),
        ],
    ),
    OpRecord(
        "InTopK",
        [sample(_FEATURES, [3, 1], k=2)],
        lambda p, t, *, k: _in_top_k(p, t, k),
        [
            bad("InvalidArgumentError", "", _FEATURES, [1, 2, 3], k=2),
            bad("InvalidArgumentError", "predictions must be 2-dimensional", _FEATURES[0], [1], k=2),
        ],
    ),
]
