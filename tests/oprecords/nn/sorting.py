"""The greatest elements of rows, and regression by rows that never rise."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told

# The greatest elements of rows, and whether a target is among them.


def _top_k(x: Any, k: Any) -> tuple[Any, Any]:
    order = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[..., : int(k)]
    return np.take_along_axis(x, order, -1), order


def _in_top_k(predictions: Any, targets: Any, k: Any) -> Any:
    chosen = np.take_along_axis(predictions, targets[:, None].astype(int), 1)
    return (predictions > chosen).sum(1) < k


_FEATURES = np.array([[0.1, 0.9, 0.3, 0.9], [0.7, 0.2, 0.2, 0.1]])

_OF_SORTING: Final = [
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


# The greatest elements of rows, where an accelerator may miss some.

_ROWS: Final = np.array([[1.0, 3, 2, -3], [5, -4, 0, 4], [4, 2, 1, 9]])
_TIED: Final = np.array([1.0, 3, 2, 3])


def _top(x: Any, *, k: int, reduction_dimension: int, is_max_k: bool) -> Any:
    places = np.argsort(-x if is_max_k else x, axis=reduction_dimension, kind="stable")
    places = np.take(places, range(k), reduction_dimension)
    return np.take_along_axis(x, places, reduction_dimension), places


_OF_APPROXIMATE: Final = [
    OpRecord(
        "ApproxTopK",
        [
            sample(_ROWS, k=2),
            sample(_ROWS, k=0),
            sample(_ROWS, k=2, is_max_k=False),
            sample(_ROWS, k=3, reduction_dimension=0),
            sample(_ROWS[None], k=2, reduction_dimension=-2, is_max_k=False),
            sample(_TIED, k=1),
            sample(_ROWS[0], k=2, aggregate_to_topk=False),
        ],
        _top,
        [
            bad("InvalidArgumentError", "k columns", _ROWS, k=9),
            bad("InvalidArgumentError", "2", _ROWS, k=1, reduction_dimension=2),
        ],
        differentiable=True,
    ),
]


# Regression by rows that never rise.


def _regressed(x: Any) -> Any:
    """By its greatest mean to the left, least to the right: the min-max formula."""
    rows = x.reshape(-1, x.shape[-1]).astype(np.float64) if x.size else np.zeros((0, 0))
    out = np.zeros(rows.shape)
    for row, found in zip(rows, out, strict=True):
        for i in range(len(row)):
            found[i] = min(max(row[a : b + 1].mean() for b in range(i, len(row))) for a in range(i + 1))
    segments = np.zeros(out.shape, int)
    segments[:, 1:] = np.cumsum(~np.isclose(out[:, 1:], out[:, :-1]), axis=1)
    return out.reshape(x.shape), segments.reshape(x.shape)


_OF_ISOTONIC: Final = [
    OpRecord(
        "IsotonicRegression",
        [
            sample([[1.0, 3, 2, 4, 0]]),
            sample([[3.0, 2, 1], [1, 2, 3]]),
            sample([[[1.0, 3], [2, 4]]]),
            told([1.0], [1.0, 0], {}),
            sample([1.0, 2, 0, 5, -3, 1, -7]),
            sample(np.zeros((0, 3))),
            sample(np.zeros((2, 0))),
        ],
        _regressed,
        dtypes={"T": ("float32", "int32", "float64", "bfloat16"), "output_dtype": ("float32", "float64")},
        differentiable=True,
    ),
]


RECORDS: Final = [*_OF_SORTING, *_OF_APPROXIMATE, *_OF_ISOTONIC]
