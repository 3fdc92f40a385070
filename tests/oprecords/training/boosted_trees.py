"""Boosted trees: what TensorFlow 1.15 gave, and sums one example after another."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told

_NODES: Final = [0, 1, 0, 1]
_GRADIENTS: Final = [[1.0], [2.0], [3.0], [4.0]]
_HESSIANS: Final = [[0.125], [0.25], [0.5], [0.75]]
_SUMMED: Final = (_GRADIENTS, _HESSIANS)
_SIZES: Final = {"max_splits": 2, "num_buckets": 3}


def _bucketized(values: Any, boundaries: Any) -> Any:
    found = []
    for each, ends in zip(values, boundaries, strict=True):
        found.append([min(sum(bool(end < value) for end in ends), max(len(ends) - 1, 0)) for value in each])
    return [np.array(each, int) for each in found]


def _summed(
    nodes: Any, gradients: Any, hessians: Any, features: Any, *, max_splits: int, num_buckets: int
) -> Any:
    out = np.zeros((len(features), max_splits, num_buckets, 2))
    for place, feature in enumerate(features):
        for node, g, h, bucket in zip(nodes, gradients, hessians, feature, strict=True):
            out[place, node, bucket] += [g[0], h[0]]
    return out


def _aggregated(
    nodes: Any, gradients: Any, hessians: Any, feature: Any, *, max_splits: int, num_buckets: int
) -> Any:
    out = np.zeros((max_splits, feature.shape[1], num_buckets + 1, gradients.shape[1] + hessians.shape[1]))
    for node, g, h, row in zip(nodes, gradients, hessians, feature, strict=True):
        for place, bucket in enumerate(row):
            out[node, place, bucket if bucket >= 0 else num_buckets] += [*g, *h]
    return out


RECORDS: Final = [
    OpRecord(
        "BoostedTreesBucketize",
        [
            sample([[-5.0, 1.0, 1.5, 2.0, 9.0]], [[1.0, 2.0, 3.0]]),
            sample([[3.0, -1.0], [np.nan, 0.5]], [[0.0], [0.0, 1.0]]),
            told(([[-5.0]], [np.zeros(0)]), [[0]], {}),
        ],
        _bucketized,
        [
            bad("InvalidArgumentError", "", [[[1.0]]], [[1.0]]),
            bad("InvalidArgumentError", "", [[1.0]], [[[1.0]]]),
        ],
    ),
    OpRecord(
        "BoostedTreesMakeStatsSummary",
        [
            told(
                (_NODES, *_SUMMED, [[0, 1, 1, 2], [2, 2, 0, 0]]),
                [
                    [
                        [[[1, 0.125], [3, 0.5], [0, 0]], [[0, 0], [2, 0.25], [4, 0.75]]],
                        [[[3, 0.5], [0, 0], [1, 0.125]], [[4, 0.75], [0, 0], [2, 0.25]]],
                    ]
                ],
                _SIZES,
            ),
            sample([1, 1, 1, 0], *_SUMMED, [[2, 2, 2, 0]], **_SIZES),
        ],
        _summed,
        [
            bad(
                "InvalidArgumentError",
                "5 is not in [0, 2)",
                [0, 5, 0, 1],
                _GRADIENTS,
                _HESSIANS,
                [_NODES],
                **_SIZES,
            ),
            bad(
                "InvalidArgumentError",
                "7 is not in [0, 3)",
                _NODES,
                _GRADIENTS,
                _HESSIANS,
                [[0, 7, 1, 1]],
                **_SIZES,
            ),
            bad("InvalidArgumentError", "", [0, 1], *_SUMMED, [_NODES], **_SIZES),
        ],
    ),
    OpRecord(
        "BoostedTreesAggregateStats",
        [
            told(
                (_NODES, *_SUMMED, [[0, 1], [-1, 2], [1, 1], [2, 0]]),
                [
                    [
                        [
                            [[1, 0.125], [3, 0.5], [0, 0], [0, 0]],
                            [[0, 0], [4, 0.625], [0, 0], [0, 0]],
                        ],
                        [
                            [[0, 0], [0, 0], [4, 0.75], [2, 0.25]],
                            [[4, 0.75], [0, 0], [2, 0.25], [0, 0]],
                        ],
                    ]
                ],
                _SIZES,
            ),
            sample([0, 1], [[1.0, 5.0], [2.0, 6.0]], [[1.0, 2, 3, 4], [2, 3, 4, 5]], [[0], [2]], **_SIZES),
        ],
        _aggregated,
        [
            bad(
                "InvalidArgumentError",
                "2 is not in [0, 2)",
                [0, 2, 0, 1],
                _GRADIENTS,
                _HESSIANS,
                [[0]] * 4,
                **_SIZES,
            ),
            bad(
                "InvalidArgumentError",
                "-2 is not in [-1, 3)",
                _NODES,
                _GRADIENTS,
                _HESSIANS,
                [[-2]] * 4,
                **_SIZES,
            ),
        ],
    ),
    OpRecord(
        "BoostedTreesSparseAggregateStats",
        [
            told(
                (_NODES, *_SUMMED, [[0, 1], [2, 0], [2, 1], [3, 0]], [1, 0, 1, 0], [4, 2]),
                [
                    [
                        *([0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 2, 0], [0, 0, 2, 1], [0, 1, 1, 0], [0, 1, 1, 1]),
                        *([1, 0, 0, 0], [1, 0, 0, 1], [1, 0, 2, 0], [1, 0, 2, 1], [1, 1, 2, 0], [1, 1, 2, 1]),
                    ],
                    [3.0, 0.5, 1.0, 0.125, 4.0, 0.625, 4.0, 0.75, 2.0, 0.25, 6.0, 1.0],
                    [2, 2, 3, 2],
                ],
                {"max_splits": 2, "num_buckets": 2},
            ),
        ],
        bad=[
            bad("InvalidArgumentError", "not in [4, 2]", _NODES, *_SUMMED, [[0, 2]], [1], [4, 2], **_SIZES),
            bad(
                "InvalidArgumentError",
                "in order",
                _NODES,
                *_SUMMED,
                [[1, 0], [0, 0]],
                [1, 1],
                [4, 2],
                **_SIZES,
            ),
            bad("InvalidArgumentError", "5 is not in", _NODES, *_SUMMED, [[0, 1]], [5], [4, 2], **_SIZES),
            bad("InvalidArgumentError", "", _NODES, *_SUMMED, [[0, 1]], [1, 2], [4, 2], **_SIZES),
        ],
        partial=True,
    ),
]
