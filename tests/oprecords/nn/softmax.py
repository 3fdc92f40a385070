"""Softmax, its logarithm, and the cross entropies."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _log_softmax(x: Any) -> Any:
    return x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))


def _cross_entropy(features: Any, labels: Any) -> tuple[Any, Any]:
    features, labels = np.broadcast_arrays(features, labels)
    return -(labels * _log_softmax(features)).sum(-1), _softmax(features) - labels


def _sparse_cross_entropy(features: Any, labels: Any) -> tuple[Any, Any]:
    return _cross_entropy(features, np.eye(features.shape[1])[labels])


_SCORES = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0]])
_LABELS = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])

RECORDS: Final = [
    OpRecord(
        "Softmax",
        [sample(_SCORES), sample(_SCORES[0]), sample(np.zeros((0, 3))), sample([[1000.0, 999.0]])],
        lambda x: _softmax(x) if x.size else x,
        [bad("InvalidArgumentError", "", 1.0)],
        loose=2,
        differentiable=True,
    ),
    OpRecord(
        "LogSoftmax",
        [sample(_SCORES), sample(np.zeros((0, 3))), sample([[1000.0, 999.0]])],
        lambda x: _log_softmax(x) if x.size else x,
        [bad("InvalidArgumentError", "", 1.0)],
        loose=3,
        differentiable=True,
    ),
    OpRecord(
        "SoftmaxCrossEntropyWithLogits",
        [sample(_SCORES, _LABELS), sample(_SCORES, _LABELS[:1])],
        _cross_entropy,
        [bad("InvalidArgumentError", "[2,3]", _SCORES, [[1.0, 2.0]])],
        loose=3,
        differentiable=True,
    ),
    OpRecord(
        "SparseSoftmaxCrossEntropyWithLogits",
        [sample(_SCORES, [2, 0])],
        _sparse_cross_entropy,
        [
            bad("InvalidArgumentError", "7", _SCORES, [7, 0]),
            bad("InvalidArgumentError", "[3]", _SCORES, [0, 1, 2]),
        ],
        loose=3,
        differentiable=True,
    ),
]
