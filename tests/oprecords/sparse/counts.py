"""How often values occur, beside Python's counting."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told

_ROWS: Final = [[1, 2, 2, 0], [5, 1, 1, 3]]
_WEIGHTS: Final = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
_NONE: Final = np.zeros(0)
_SPARSE: Final = ([[0, 1], [2, 0], [2, 3], [2, 4]], [3, 1, 1, 2], [3, 5])
_LINE: Final = ([[0], [3], [4]], [2, 2, 0], [6])
_SPLITS: Final = [0, 3, 3, 4]
_FLAT: Final = [3, 1, 1, 2]
#: Where splits fall, the first row has what it names, and rows that begin before its end have nothing.
_FALLING: Final = [[[0, 2, 1], [0, 0, 0], [0, 0, 0]]]
_TYPES: Final = ("int32", "int64", "float32", "float64")


def _table(rows: Any, width: int, weights: Any, binary: bool) -> Any:
    """(rows, width): counts, sums of weights, or ones."""
    out = np.zeros((len(rows), width), weights.dtype)
    start = 0
    for line, row in zip(out, rows, strict=True):
        for value in row:
            if value < width:
                line[value] = (
                    1 if binary else line[value] + (weights.reshape(-1)[start] if weights.size else 1)
                )
            start += 1
    return out


def _rows(indices: Any, values: Any, shape: Any) -> Any:
    return [values[indices[:, 0] == row] for row in range(shape[0])] if len(shape) > 1 else [values]


def _split(splits: Any, values: Any) -> Any:
    return [values[a:b] for a, b in itertools.pairwise(splits)]


def _dense(x: Any, size: Any, weights: Any, *, binary_output: bool) -> Any:
    bins = _table(np.atleast_2d(x), int(size), weights, binary_output)
    return bins if x.ndim == 2 else bins[0]


def _sparse(i: Any, v: Any, shape: Any, size: Any, weights: Any, *, binary_output: bool) -> Any:
    bins = _table(_rows(i, v, shape), int(size), weights, binary_output)
    return bins if len(shape) > 1 else bins[0]


def _counts(rows: Any, matrix: bool, weights: Any, low: int, high: int, binary: bool) -> Any:
    every = [value for row in rows for value in row]
    width = max(max(every, default=0) + 1, low) if high < 0 else high
    table = _table(rows, width, weights, binary)
    seen = _table(rows, width, np.zeros(0), True) > 0
    places = np.argwhere(seen)
    return places if matrix else places[:, 1:], table[seen], np.array([len(rows), width][not matrix :])


def _dense_counts(x: Any, w: Any, *, minlength: int, maxlength: int, binary_output: bool) -> Any:
    return _counts(np.atleast_2d(x), x.ndim == 2, w, minlength, maxlength, binary_output)


def _sparse_counts(
    i: Any, v: Any, s: Any, w: Any, *, minlength: int, maxlength: int, binary_output: bool
) -> Any:
    return _counts(_rows(i, v, s), len(s) == 2, w, minlength, maxlength, binary_output)


def _ragged_counts(s: Any, v: Any, w: Any, *, minlength: int, maxlength: int, binary_output: bool) -> Any:
    return _counts(_split(s, v), True, w, minlength, maxlength, binary_output)


_BAD: Final = "InvalidArgumentError"
_BINS: Final = {"T": _TYPES, "Tidx": ("int32", "int64")}
_OUTPUT: Final = {"output_type": _TYPES, "T": ("int32", "int64")}

RECORDS: Final = [
    OpRecord(
        "DenseBincount",
        [
            sample(_ROWS, 4, _NONE),
            sample(_ROWS, 7, _WEIGHTS),
            sample(_ROWS[0], 3, _NONE, binary_output=True),
            sample(np.zeros((2, 0)), 3, _NONE),
            sample(_ROWS[0], 0, _NONE),
        ],
        _dense,
        [
            bad(_BAD, "non-negative", [-1], 3, _NONE),
            bad(_BAD, "(-1)", [1], -1, _NONE),
            bad(_BAD, "shape", _ROWS, 3, [1.0, 2.0]),
        ],
        _BINS,
        partial=True,
    ),
    OpRecord(
        "SparseBincount",
        [
            sample(*_SPARSE, 3, _NONE),
            sample(*_SPARSE, 4, [1.0, 2.0, 3.0, 4.0]),
            sample([[0, 1, 0], [1, 0, 2]], [1, 2], [2, 2, 3], 4, _NONE),
            sample(*_LINE, 3, _NONE, binary_output=True),
        ],
        _sparse,
        [
            bad(_BAD, "leaves the 1 rows", *_SPARSE[:2], [1, 5], 3, _NONE),
            bad(_BAD, "non-negative", [[0]], [-1], [1], 3, _NONE),
        ],
        _BINS,
        partial=True,
    ),
    OpRecord(
        "RaggedBincount",
        [
            sample(_SPLITS, _FLAT, 3, _NONE),
            sample(_SPLITS, _FLAT, 4, [1.0, 2.0, 3.0, 4.0], binary_output=True),
            told([[0, 4, 2, 4], _FLAT, 3, _NONE], _FALLING, {"T": "int32"}),
            told([[[0, 4, 2, 4]], [_FLAT], 3, _NONE], _FALLING, {"T": "int32"}),
        ],
        lambda splits, values, size, weights, *, binary_output: _table(
            _split(splits, values), int(size), weights, binary_output
        ),
        [
            bad(_BAD, "start with 0", [1, 4], _FLAT, 3, _NONE),
            bad(_BAD, "got 3 instead of 4", [0, 3], _FLAT, 3, _NONE),
        ],
        _BINS,
        partial=True,
    ),
    OpRecord(
        "DenseCountSparseOutput",
        [
            sample(_ROWS, _NONE, binary_output=False),
            sample(_ROWS, _WEIGHTS, binary_output=False, maxlength=3),
            sample(_ROWS[0], _NONE, binary_output=True, minlength=9),
            sample(np.zeros((2, 0)), _NONE, binary_output=False),
        ],
        _dense_counts,
        [
            bad(_BAD, "non-negative", [-1], _NONE, binary_output=False),
            bad(_BAD, "shape", _ROWS, [1.0, 2.0], binary_output=False),
            bad(_BAD, "no rows", np.zeros((0, 4)), _NONE, binary_output=False),
            bad(_BAD, "Got: 3", [[[1]]], _NONE, binary_output=False),
        ],
        _OUTPUT,
        partial=True,
    ),
    OpRecord(
        "SparseCountSparseOutput",
        [
            sample(*_SPARSE, _NONE, binary_output=False),
            sample(*_SPARSE, [1.0, 2.0, 3.0, 4.0], binary_output=False, minlength=5),
            sample(*_LINE, _NONE, binary_output=True, maxlength=2),
        ],
        _sparse_counts,
        [bad(_BAD, "leaves the 1 rows", *_SPARSE[:2], [1, 5], _NONE, binary_output=False)],
        _OUTPUT,
        partial=True,
    ),
    OpRecord(
        "RaggedCountSparseOutput",
        [
            sample(_SPLITS, _FLAT, _NONE, binary_output=False),
            sample(_SPLITS, _FLAT, [1.0, 2.0, 3.0, 4.0], binary_output=False, maxlength=3),
            told(
                ([0, 9, 2, 4], [1, 2, 3, 1], np.zeros(0)),
                ([[0, 1], [0, 2], [0, 3]], [2, 1, 1], [3, 4]),
                {"binary_output": False},
            ),
            told(
                ([0, 3, 2, 4], [1, 2, 3, 1], np.zeros(0)),
                ([[0, 1], [0, 2], [0, 3], [2, 1]], [1, 1, 1, 1], [3, 4]),
                {"binary_output": False},
            ),
        ],
        _ragged_counts,
        [bad(_BAD, "end with the number of values", [0, 2, 3], _FLAT, _NONE, binary_output=False)],
        _OUTPUT,
        partial=True,
    ),
]
