"""Connectionist temporal classification: its loss and its decoders."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

# Connectionist temporal classification: its loss.


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

_OF_CTC: Final = [
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


# Connectionist temporal classification: decoders.


def _sparse(rows: Any) -> tuple[Any, Any, Any]:
    indices = [(b, i) for b, row in enumerate(rows) for i in range(len(row))]
    shape = [len(rows), max(map(len, rows))]
    return np.reshape(indices, (-1, 2)), np.array([c for row in rows for c in row]), np.array(shape)


def _greedy(inputs: Any, lengths: Any, *, merge_repeated: bool, blank_index: int) -> tuple[Any, ...]:
    blank = blank_index % inputs.shape[2]
    rows, sums = [], []
    for b, length in enumerate(lengths):
        best = inputs[: max(length, 0), b].argmax(1).tolist()
        if merge_repeated:
            best = [c for c, _ in itertools.groupby(best)]
        rows.append([c for c in best if c != blank])
        sums.append([-inputs[: max(length, 0), b].max(1, initial=-np.inf).sum()])
    return *_sparse(rows), np.array(sums)


def _beams(inputs: Any, lengths: Any, *, top_paths: int, merge_repeated: bool) -> tuple[Any, ...]:
    """By all ways there are: what a search finds whose beams are wide enough."""
    paths: list[Any] = []
    for b, length in enumerate(lengths):
        logits = inputs[: max(length, 0), b]
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        found: dict[Any, float] = {}
        for way in itertools.product(range(inputs.shape[2]), repeat=len(logs)):
            key = tuple(c for c, _ in itertools.groupby(way) if c != inputs.shape[2] - 1)
            found[key] = found.get(key, 0.0) + np.exp(sum(logs[t, c] for t, c in enumerate(way)))
        best = sorted(found.items(), key=lambda item: -item[1])[:top_paths]
        paths.append([(list(key), np.log(value)) for key, value in best])
    merged = [
        _sparse(
            [[c for c, _ in itertools.groupby(row[p][0])] if merge_repeated else row[p][0] for row in paths]
        )
        for p in range(top_paths)
    ]
    columns = [part for parts in zip(*merged, strict=True) for part in parts]
    return *columns, np.array([[value for _, value in row] for row in paths])


_LOGITS_CTC_DECODERS: Final = np.random.RandomState(7).uniform(-2, 2, (4, 3, 4))
_LENGTHS: Final = [4, 3, 0]
_FAULTS: Final = [
    ("InvalidArgumentError", "3-Tensor", [[1.0]], [1]),
    ("InvalidArgumentError", "must not be empty", _LOGITS_CTC_DECODERS[:0], _LENGTHS),
    ("InvalidArgumentError", "not a vector", _LOGITS_CTC_DECODERS, [_LENGTHS]),
    ("FailedPreconditionError", "<= 4", _LOGITS_CTC_DECODERS, [4, 5, 0]),
]

_OF_CTC_DECODERS: Final = [
    OpRecord(
        "CTCGreedyDecoder",
        [
            *[sample(_LOGITS_CTC_DECODERS, _LENGTHS, merge_repeated=merges) for merges in (False, True)],
            sample(_LOGITS_CTC_DECODERS.round(), _LENGTHS, merge_repeated=True, blank_index=0),
            sample(_LOGITS_CTC_DECODERS, [2, -1, 0]),
        ],
        _greedy,
        [
            *[bad(*fault) for fault in _FAULTS],
            bad("InvalidArgumentError", "was 4", _LOGITS_CTC_DECODERS, _LENGTHS, blank_index=4),
        ],
        partial=True,
    ),
    OpRecord(
        "CTCBeamSearchDecoder",
        [
            sample(_LOGITS_CTC_DECODERS, [4, 3, 2], beam_width=200, top_paths=3, merge_repeated=False),
            sample(_LOGITS_CTC_DECODERS, [4, 3, 4], beam_width=200, top_paths=2, merge_repeated=True),
            sample(_LOGITS_CTC_DECODERS, [0, -1, 0], beam_width=5, top_paths=1),
        ],
        _beams,
        [
            *[bad(*fault, beam_width=5, top_paths=2) for fault in _FAULTS],
            bad(
                "InvalidArgumentError",
                "beam width",
                _LOGITS_CTC_DECODERS,
                _LENGTHS,
                beam_width=2,
                top_paths=3,
            ),
            bad(
                "InvalidArgumentError",
                "Less leaves",
                _LOGITS_CTC_DECODERS,
                _LENGTHS,
                beam_width=9,
                top_paths=3,
            ),
        ],
        partial=True,
        loose=10,
    ),
]


RECORDS: Final = [*_OF_CTC, *_OF_CTC_DECODERS]
