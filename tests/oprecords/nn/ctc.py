"""Connectionist temporal classification: its loss."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


def _collapsed(way: Any, blank: int, merges: bool) -> tuple[int, ...]:
    kept = [c for i, c in enumerate(way) if not (merges and i and way[i - 1] == c)]
    return tuple(c for c in kept if c != blank)


def _loss_of_row(logits: Any, target: tuple[int, ...], merges: bool) -> tuple[float, Any]:
    """By all ways there are: the loss, and the gradient as the softmax less each class's share."""
    probability = np.exp(logits - logits.max(1, keepdims=True))
    probability /= probability.sum(1, keepdims=True)
    steps, classes = logits.shape
    total, shares = 0.0, np.zeros_like(probability)
    for way in itertools.product(range(classes), repeat=steps):
        if _collapsed(way, classes - 1, merges) == target:
            chance = np.prod(probability[np.arange(steps), way])
            total += chance
            shares[np.arange(steps), way] += chance
    return -np.log(total), probability - (shares / total if total else 0.0)


def _loss(
    inputs: Any,
    indices: Any,
    values: Any,
    lengths: Any,
    *,
    preprocess_collapse_repeated: bool,
    ctc_merge_repeated: bool,
) -> tuple[Any, Any]:
    losses, gradient = np.zeros(inputs.shape[1]), np.zeros_like(inputs)
    for b, length in enumerate(lengths):
        row = values[indices[:, 0] == b].tolist()
        if not length or len(row) > length:
            continue
        if preprocess_collapse_repeated:
            row = [c for i, c in enumerate(row) if not i or c != row[i - 1]]
        target = tuple(c for c in row if c < inputs.shape[2] - 1)
        losses[b], gradient[:length, b] = _loss_of_row(inputs[:length, b], target, ctc_merge_repeated)
    return losses, gradient


_LOGITS: Final = np.random.RandomState(5).uniform(-2, 2, (5, 2, 4))
_INDICES: Final = [[0, 0], [0, 1], [1, 0]]
_LONG: Final = {"ignore_longer_outputs_than_inputs": True}

RECORDS: Final = [
    OpRecord(
        "CTCLoss",
        [
            sample(_LOGITS, _INDICES, [0, 1, 2], [5, 4]),
            sample(_LOGITS, _INDICES, [1, 1, 2], [5, 4]),
            sample(_LOGITS, _INDICES, [1, 1, 2], [5, 4], preprocess_collapse_repeated=True),
            sample(_LOGITS, _INDICES, [1, 1, 2], [5, 4], ctc_merge_repeated=False),
            sample(_LOGITS, _INDICES, [1, 3, 3], [4, 2]),
            sample(_LOGITS, _INDICES, [1, 1, 2], [1, 0], **_LONG),
            sample(_LOGITS * 20, _INDICES, [0, 1, 2], [3, 4]),
        ],
        _loss,
        [
            bad("InvalidArgumentError", "3", [[1.0]], _INDICES, [0, 1, 2], [1]),
            bad(
                "InvalidArgumentError",
                "Labels length is zero in batch 1",
                _LOGITS,
                _INDICES[:2],
                [0, 1],
                [5, 4],
            ),
            bad("InvalidArgumentError", "out of order", _LOGITS, _INDICES[::-1], [0, 1, 2], [5, 4]),
            bad("InvalidArgumentError", "out of bounds", _LOGITS, [[0, 0], [2, 0]], [0, 1], [5, 4]),
            bad("InvalidArgumentError", "repeated", _LOGITS, [[0, 0], [0, 0]], [0, 1], [5, 4]),
            bad("InvalidArgumentError", "nonnegative", _LOGITS, _INDICES, [0, -1, 2], [5, 4]),
            bad("InvalidArgumentError", "following a null label", _LOGITS, _INDICES, [3, 1, 2], [5, 4]),
            bad("InvalidArgumentError", "required: 2, available: 1", _LOGITS, _INDICES, [0, 1, 2], [1, 4]),
            bad("InvalidArgumentError", "<= 5", _LOGITS, _INDICES, [0, 1, 2], [6, 4]),
            bad("InvalidArgumentError", "< 0", _LOGITS, _INDICES, [0, 1, 2], [5, -1]),
            bad("InvalidArgumentError", "", _LOGITS, _INDICES, [0, 1, 2], [5]),
            bad("InvalidArgumentError", "same number of rows", _LOGITS, _INDICES, [0, 1], [5, 4]),
            bad("InvalidArgumentError", "must not be 0", _LOGITS[:, :0], np.zeros((0, 2)), [], []),
        ],
        loose=30,
        differentiable=("inputs",),
    ),
]
