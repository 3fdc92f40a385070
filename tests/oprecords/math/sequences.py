"""Sequences of numbers, arithmetic on shapes, counting."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


def _bincount(values: Any, size: Any, weights: Any) -> Any:
    keep = values < size
    scale = weights[keep] if weights.size else np.ones(keep.sum())
    return np.bincount(values[keep], scale, int(size)).astype(weights.dtype)


def _histogram(values: Any, value_range: Any, nbins: Any) -> Any:
    low, high = value_range
    bins = np.floor((np.ravel(values) - low) / (high - low) * nbins)
    return np.bincount(np.clip(bins, 0, nbins - 1).astype(int), minlength=int(nbins))


def _range(start: Any, limit: Any, delta: Any) -> Any:
    return start + delta * np.arange(int(np.ceil((float(limit) - float(start)) / float(delta))))


def _gradient_args(a: Any, b: Any) -> tuple[Any, Any]:
    rank = max(len(a), len(b))
    a, b = [np.concatenate([np.ones(rank - len(s), s.dtype), s]) for s in (a, b)]
    either = (a == 1) & (b == 1)
    return np.flatnonzero((a == 1) & (b != 1) | either), np.flatnonzero((b == 1) & (a != 1) | either)


RECORDS: Final = [
    OpRecord(
        "Range",
        [
            sample(3.0, 18.0, 3.0),
            sample(0.0, 5.0, 2.0),
            sample(4.0, 4.0, 1.0),
            sample(5.0, 1.0, -2.0, Tidx="int32"),
        ],
        _range,
        [
            bad("InvalidArgumentError", "0", 1, 5, 0, Tidx="int32"),
            bad("InvalidArgumentError", "5", 5, 1, 1, Tidx="int32"),
        ],
    ),
    OpRecord(
        "LinSpace",
        [sample(10.0, 12.0, 5), sample(1.0, 9.0, 1)],
        lambda start, stop, num: np.linspace(start, stop, int(num)),
        [bad("InvalidArgumentError", "0", 1.0, 2.0, 0)],
    ),
    OpRecord(
        "BroadcastGradientArgs",
        [sample([2, 3], [3]), sample([2, 1], [1, 5]), sample([4], [4]), sample(np.zeros((0,)), [2])],
        _gradient_args,
        [bad("InvalidArgumentError", "", [2], [3])],
        partial=True,
    ),
    OpRecord(
        "Bincount",
        [sample([1, 1, 0, 7], 3, [1.0, 2.0, 4.0, 8.0]), sample([[0, 2], [2, 2]], 4, np.zeros((0,)))],
        _bincount,
        [bad("InvalidArgumentError", "-1", [1], -1, np.zeros((0,)))],
        differentiable=True,
    ),
    OpRecord(
        "HistogramFixedWidth",
        [sample([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], 5)],
        _histogram,
        [bad("InvalidArgumentError", "-2", [1.0], [0.0, 5.0], -2)],
        {"T": ("float32", "float64", "int32", "int64")},
    ),
    OpRecord(
        "Bucketize",
        [sample([[-5.0, 10000.0], [150.0, 10.0], [5.0, 100.0]], boundaries=[0.0, 10.0, 100.0])],
        lambda x, *, boundaries: np.digitize(x, boundaries),
        [bad("InvalidArgumentError", "", [1.0], boundaries=[2.0, 1.0])],
    ),
]
