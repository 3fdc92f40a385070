"""Sets and sequences that the rows of sparse tensors hold, beside Python's sets and the table of prefixes."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, strings

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

RECORDS: Final = [
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
