"""Sets and counts of the values in rows."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, strings, told

# Sets and sequences that the rows of sparse tensors hold, beside Python's sets and the table of prefixes.

_A: Final = ([[0, 0], [0, 2], [1, 1], [3, 0], [3, 1]], [3, 1, 4, 5, 5], [4, 3])
_B: Final = ([[0, 0], [1, 0], [1, 1], [2, 0]], [1, 4, 2, 7], [4, 2])
_NOTHING: Final = (np.zeros((0, 2)), np.zeros(0), [4, 2])
_DENSE: Final = [[1, 3, 3], [2, 2, 2], [0, 1, 2], [5, 6, 5]]
_OPERATIONS: Final = {
    b"a-b": set.difference,
    b"b-a": lambda a, b: b - a,
    b"intersection": set.intersection,
    b"union": set.union,
}
#: In nobody's alphabetical order.
_TYPES: Final = ("int64", "int32", "int8", "int16", "uint8", "uint16")


def _of_sparse(indices: Any, values: Any, shape: Any) -> dict[tuple[int, ...], set[Any]]:
    found: dict[tuple[int, ...], set[Any]] = {p: set() for p in np.ndindex(*shape[:-1])}
    for place, value in zip(indices.tolist(), values.tolist(), strict=True):
        found[tuple(place[:-1])].add(value)
    return found


def _of_dense(tensor: Any) -> dict[tuple[int, ...], set[Any]]:
    return {p: set(tensor[p].tolist()) for p in np.ndindex(*tensor.shape[:-1])}


def _combined(a: Any, b: Any, operation: bytes, dtype: Any) -> Any:
    rows = {place: sorted(_OPERATIONS[operation.lower()](a[place], b[place])) for place in a}
    places = [(*place, i) for place, row in rows.items() for i in range(len(row))]
    rank = len(next(iter(rows))) + 1
    sizes = np.array(list(rows))[-1] + 1
    values = np.array([v for row in rows.values() for v in row], dtype)
    return (
        np.array(places, np.int64).reshape(-1, rank),
        values,
        np.array([*sizes, max(map(len, rows.values()))]),
    )


def _dense_dense(a: Any, b: Any, *, set_operation: bytes) -> Any:
    return _combined(_of_dense(a), _of_dense(b), set_operation, a.dtype)


def _dense_sparse(a: Any, indices: Any, values: Any, shape: Any, *, set_operation: bytes) -> Any:
    return _combined(_of_dense(a), _of_sparse(indices, values, shape), set_operation, a.dtype)


def _sparse_sparse(ai: Any, av: Any, a: Any, bi: Any, bv: Any, b: Any, *, set_operation: bytes) -> Any:
    return _combined(_of_sparse(ai, av, a), _of_sparse(bi, bv, b), set_operation, av.dtype)


def _size(indices: Any, values: Any, shape: Any) -> Any:
    return np.array([len(s) for s in _of_sparse(indices, values, shape).values()]).reshape(shape[:-1])


def _distance(a: list[Any], b: list[Any]) -> int:
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0], table[0] = range(len(a) + 1), range(len(b) + 1)
    for i, j in itertools.product(range(len(a)), range(len(b))):
        table[i + 1, j + 1] = min(table[i, j + 1] + 1, table[i + 1, j] + 1, table[i, j] + (a[i] != b[j]))
    return int(table[-1, -1])


def _edit(hi: Any, hv: Any, hs: Any, ti: Any, tv: Any, ts: Any, *, normalize: bool) -> Any:
    out = np.zeros(np.maximum(hs[:-1], ts[:-1]), np.float64)
    for place in np.ndindex(*out.shape):
        a, b = (
            [v for p, v in zip(i[:, :-1].tolist(), w, strict=True) if tuple(p) == place]
            for i, w in ((hi, hv), (ti, tv))
        )
        out[place] = _distance(a, b)
        if normalize and (a or b):
            out[place] = out[place] / len(b) if b else np.inf
    return out


_ORDER: Final = ([[0, 1], [0, 0]], [1, 2], [4, 3])
_BAD: Final = [
    bad("InvalidArgumentError", "Invalid set_operation x", *_A, *_B, set_operation=b"x"),
    bad("InvalidArgumentError", "[4] and [5]", *_A, *_B[:2], [5, 2], set_operation=b"union"),
    bad("InvalidArgumentError", "out of order", *_A, *_ORDER, set_operation=b"union"),
    bad("InvalidArgumentError", "out of bounds", *_A, [[4, 0]], [1], [4, 3], set_operation=b"union"),
]

_OF_SETS: Final = [
    OpRecord(
        "SetSize",
        [sample(*_A), sample(*_NOTHING), sample([[0, 1, 0], [1, 0, 1]], [1, 1], [2, 2, 2])],
        _size,
        [
            bad("InvalidArgumentError", "rank", [[0]], [1], [3]),
            bad("InvalidArgumentError", "repeated", [[0, 0], [0, 0]], [1, 2], [3, 2]),
        ],
        {"T": _TYPES},
    ),
    OpRecord(
        "DenseToDenseSetOperation",
        [sample(_DENSE, [[1], [2], [3], [6]], set_operation=name) for name in _OPERATIONS],
        _dense_dense,
        [bad("InvalidArgumentError", "Mismatched", _DENSE, [[1]], set_operation=b"union")],
        {"T": _TYPES},
        partial=True,
    ),
    OpRecord(
        "DenseToSparseSetOperation",
        [sample(_DENSE, *_B, set_operation=name) for name in _OPERATIONS],
        _dense_sparse,
        [bad("InvalidArgumentError", "out of order", _DENSE, *_ORDER, set_operation=b"union")],
        {"T": _TYPES},
        partial=True,
    ),
    OpRecord(
        "SparseToSparseSetOperation",
        [
            *(sample(*_A, *_B, set_operation=name) for name in (*_OPERATIONS, b"UNION")),
            sample(*_NOTHING, *_NOTHING, set_operation=b"union"),
        ],
        _sparse_sparse,
        _BAD,
        {"T": _TYPES},
        partial=True,
    ),
    OpRecord(
        "EditDistance",
        [
            sample(*_A, *_B),
            sample(*_A, *_B, normalize=False),
            sample(*_NOTHING, *_B),
            sample(*_A, *_NOTHING),
            sample(
                [[0, i] for i in range(6)],
                strings(*(b"%c" % c for c in b"kitten")),
                [1, 6],
                [[0, i] for i in range(7)],
                strings(*(b"%c" % c for c in b"sitting")),
                [1, 7],
                T="string",
            ),
        ],
        _edit,
        [
            bad("InvalidArgumentError", "rank", [[0]], [1.0], [3], [[0]], [1.0], [3]),
            bad("InvalidArgumentError", "rank", *_A, [[0]], [1.0], [3]),
        ],
        {"T": ["float32", "int64", "bool", "bfloat16", "complex64"]},
    ),
]


# How often values occur, beside Python's counting.

_ROWS: Final = [[1, 2, 2, 0], [5, 1, 1, 3]]
_WEIGHTS: Final = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
_NONE: Final = np.zeros(0)
_SPARSE: Final = ([[0, 1], [2, 0], [2, 3], [2, 4]], [3, 1, 1, 2], [3, 5])
_LINE: Final = ([[0], [3], [4]], [2, 2, 0], [6])
_SPLITS: Final = [0, 3, 3, 4]
_FLAT: Final = [3, 1, 1, 2]
#: Where splits fall, the first row has what it names, and rows that begin before its end have nothing.
_FALLING: Final = [[[0, 2, 1], [0, 0, 0], [0, 0, 0]]]
_TYPES_COUNTS: Final = ("int32", "int64", "float32", "float64")


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


_BAD_COUNTS: Final = "InvalidArgumentError"
_BINS: Final = {"T": _TYPES_COUNTS, "Tidx": ("int32", "int64")}
_OUTPUT: Final = {"output_type": _TYPES_COUNTS, "T": ("int32", "int64")}

_OF_COUNTS: Final = [
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
            bad(_BAD_COUNTS, "non-negative", [-1], 3, _NONE),
            bad(_BAD_COUNTS, "(-1)", [1], -1, _NONE),
            bad(_BAD_COUNTS, "shape", _ROWS, 3, [1.0, 2.0]),
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
            bad(_BAD_COUNTS, "leaves the 1 rows", *_SPARSE[:2], [1, 5], 3, _NONE),
            bad(_BAD_COUNTS, "non-negative", [[0]], [-1], [1], 3, _NONE),
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
            bad(_BAD_COUNTS, "start with 0", [1, 4], _FLAT, 3, _NONE),
            bad(_BAD_COUNTS, "got 3 instead of 4", [0, 3], _FLAT, 3, _NONE),
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
            bad(_BAD_COUNTS, "non-negative", [-1], _NONE, binary_output=False),
            bad(_BAD_COUNTS, "shape", _ROWS, [1.0, 2.0], binary_output=False),
            bad(_BAD_COUNTS, "no rows", np.zeros((0, 4)), _NONE, binary_output=False),
            bad(_BAD_COUNTS, "Got: 3", [[[1]]], _NONE, binary_output=False),
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
        [bad(_BAD_COUNTS, "leaves the 1 rows", *_SPARSE[:2], [1, 5], _NONE, binary_output=False)],
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
        [bad(_BAD_COUNTS, "end with the number of values", [0, 2, 3], _FLAT, _NONE, binary_output=False)],
        _OUTPUT,
        partial=True,
    ),
]


RECORDS: Final = [*_OF_SETS, *_OF_COUNTS]
