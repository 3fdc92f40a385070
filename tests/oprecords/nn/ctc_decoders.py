"""Connectionist temporal classification: decoders."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


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


_LOGITS: Final = np.random.RandomState(7).uniform(-2, 2, (4, 3, 4))
_LENGTHS: Final = [4, 3, 0]
_FAULTS: Final = [
    ("InvalidArgumentError", "3-Tensor", [[1.0]], [1]),
    ("InvalidArgumentError", "must not be empty", _LOGITS[:0], _LENGTHS),
    ("InvalidArgumentError", "not a vector", _LOGITS, [_LENGTHS]),
    ("FailedPreconditionError", "<= 4", _LOGITS, [4, 5, 0]),
]

RECORDS: Final = [
    OpRecord(
        "CTCGreedyDecoder",
        [
            *[sample(_LOGITS, _LENGTHS, merge_repeated=merges) for merges in (False, True)],
            sample(_LOGITS.round(), _LENGTHS, merge_repeated=True, blank_index=0),
            sample(_LOGITS, [2, -1, 0]),
        ],
        _greedy,
        [
            *[bad(*fault) for fault in _FAULTS],
            bad("InvalidArgumentError", "was 4", _LOGITS, _LENGTHS, blank_index=4),
        ],
        partial=True,
    ),
    OpRecord(
        "CTCBeamSearchDecoder",
        [
            sample(_LOGITS, [4, 3, 2], beam_width=200, top_paths=3, merge_repeated=False),
            sample(_LOGITS, [4, 3, 4], beam_width=200, top_paths=2, merge_repeated=True),
            sample(_LOGITS, [0, -1, 0], beam_width=5, top_paths=1),
        ],
        _beams,
        [
            *[bad(*fault, beam_width=5, top_paths=2) for fault in _FAULTS],
            bad("InvalidArgumentError", "beam width", _LOGITS, _LENGTHS, beam_width=2, top_paths=3),
            bad("InvalidArgumentError", "Less leaves", _LOGITS, _LENGTHS, beam_width=9, top_paths=3),
        ],
        partial=True,
        loose=10,
    ),
]
