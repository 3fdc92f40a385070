"""Rows of different lengths, and the dense tensors they are padded to."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, NUMBERS, OpRecord, bad, sample

# Ragged tensors, beside lists of rows.

_SPLITS: Final = [0, 2, 2, 5]
_OUTER: Final = [0, 1, 3]
_VALUES: Final = [1.0, 2.0, 3.0, 4.0, 5.0]
_WIDE: Final = np.arange(10.0).reshape(5, 2)


def _range(starts: Any, limits: Any, deltas: Any, *, Tsplits: Any) -> Any:
    rows = [
        np.arange(*row)
        for row in zip(*map(np.atleast_1d, np.broadcast_arrays(starts, limits, deltas)), strict=True)
    ]
    return np.cumsum([0, *map(len, rows)]), np.concatenate([[], *rows])


def _nested(splits: Any, values: Any) -> Any:
    rows = values
    for each in reversed(splits):
        rows = [rows[a:b] for a, b in itertools.pairwise(each)]
    return rows


def _to_sparse(splits: Any, values: Any) -> Any:
    depth = len(splits) + values.ndim
    places: list[tuple[int, ...]] = []
    found: list[Any] = []
    widths = [0] * depth

    def walk(rows: Any, place: tuple[int, ...]) -> None:
        if len(place) == depth:
            places.append(place)
            found.append(rows)
            return
        widths[len(place)] = max(widths[len(place)], len(rows))
        for number, row in enumerate(rows):
            walk(row, (*place, number))

    walk(_nested(splits, values), ())
    widths[len(splits) + 1 :] = values.shape[1:]
    return np.array(places).reshape(-1, depth), np.array(found, values.dtype), np.array(widths)


def _gather(splits: Any, values: Any, indices: Any) -> Any:
    rows = _nested(splits, values)
    picked = [rows[i] for i in indices.reshape(-1)]
    found = [
        np.arange(int(np.prod(indices.shape[:axis])) + 1) * indices.shape[axis]
        for axis in range(1, indices.ndim)
    ]
    if indices.ndim:
        found.append(np.cumsum([0, *map(len, picked)]))
    for _ in splits[1:]:
        picked = [row for group in picked for row in group]
        found.append(np.cumsum([0, *map(len, picked)]))
    return (*found, np.concatenate([values[:0], *picked]))


def _fill(rows: Any, values: Any, count: Any, default: Any) -> Any:
    order = np.argsort(rows, kind="stable")
    missing = np.setdiff1d(np.arange(count), rows)
    every = [(r, 0, v, i) for i, (r, v) in enumerate(zip(rows[order], values[order], strict=True))]
    every += [(r, 1, default, -1) for r in missing]
    every.sort(key=lambda entry: entry[0])
    went = np.zeros(len(rows), int)
    for at, (_, _, _, number) in enumerate(every):
        if number >= 0:
            went[order[number]] = at
    return (
        np.array([r for r, *_ in every], int),
        np.array([v for _, _, v, _ in every], values.dtype),
        np.isin(np.arange(count), rows, invert=True),
        went,
    )


def _fill_grad(where: Any, grad: Any) -> Any:
    return grad[where], np.delete(grad, where).sum()


_BAD_SPLITS: Final = [
    ("must be 0", [1, 5]),
    ("must not fall", [0, 4, 2, 5]),
    ("4 vs. 5", [0, 4]),
    ("at least one element", np.zeros(0)),
]

_OF_RAGGED: Final = [
    OpRecord(
        "RaggedRange",
        [
            sample([0.0, 5.0, 8.0], [8.0, 7.0, 8.0], [3.0, 1.0, 1.0]),
            sample(3.0, [8.0, -1.0], [2.0, -1.0]),
            sample(3.0, 7.0, 1.0),
            sample(np.zeros(0), np.zeros(0), 1.0),
            sample(0.0, 100.0, 1.0),
        ],
        _range,
        [
            bad("InvalidArgumentError", "delta != 0", [0.0], [1.0], [0.0]),
            bad("InvalidArgumentError", "same shape", [0.0, 1.0], [1.0, 2.0, 3.0], 1.0),
            bad("InvalidArgumentError", "9223372036854775807", 0.0, np.inf, 1.0),
        ],
        partial=True,
    ),
    OpRecord(
        "RaggedTensorToSparse",
        [sample([_SPLITS], _VALUES), sample([_OUTER, _SPLITS], _WIDE), sample([[0]], np.zeros(0))],
        _to_sparse,
        [bad("InvalidArgumentError", message, [splits], _VALUES) for message, splits in _BAD_SPLITS],
        {"T": MOVED},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "RaggedGather",
        [
            sample([_SPLITS], _VALUES, [2, 0, 2], OUTPUT_RAGGED_RANK=1),
            sample([_SPLITS], _WIDE, 2, OUTPUT_RAGGED_RANK=0),
            sample([_OUTER, _SPLITS], _WIDE, [[1, 0], [1, 1]], OUTPUT_RAGGED_RANK=3),
            sample([_SPLITS], _VALUES, np.zeros(0), OUTPUT_RAGGED_RANK=1),
        ],
        _gather,
        [
            bad("InvalidArgumentError", "indices[1] = 3", [_SPLITS], _VALUES, [0, 3], OUTPUT_RAGGED_RANK=1),
            bad("InvalidArgumentError", "point past", [[0, 6]], _VALUES, [0], OUTPUT_RAGGED_RANK=1),
        ],
        {"Tvalues": MOVED},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "RaggedFillEmptyRows",
        [
            sample([0, 0, 3], [1.0, 2.0, 3.0], 5, 9.0),
            sample([3, 0, 3], [1.0, 2.0, 3.0], 4, 9.0),
            sample(np.zeros(0), np.zeros(0), 2, 9.0),
            sample(np.zeros(0), np.zeros(0), 0, 9.0),
        ],
        _fill,
        [
            bad("InvalidArgumentError", "value_rowids[1] = 2", [0, 2], [1.0, 2.0], 2, 9.0),
            bad("InvalidArgumentError", "2 and 1", [0, 2], [1.0], 3, 9.0),
        ],
        {"T": MOVED},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "RaggedFillEmptyRowsGrad",
        [sample([2, 0], [1.0, 2.0, 3.0, 4.0]), sample([1, 0], [1.0, 2.0])],
        _fill_grad,
        [bad("InvalidArgumentError", "[1] = 5", [0, 5], [1.0, 2.0])],
        {"T": NUMBERS},
        differentiable=True,
    ),
]


# Ragged tensors as dense ones, beside loops over rows.

_ROWS: Final = {"row_partition_types": [b"ROW_SPLITS"]}
_IDS: Final = {"row_partition_types": [b"FIRST_DIM_SIZE", b"VALUE_ROWIDS"]}
_VALUES_RAGGED_PADDING: Final = [1.0, 2.0, 3.0, 4.0, 5.0]
_SPLITS_RAGGED_PADDING: Final = [0, 2, 2, 5]


def _padded(shape: Any, values: Any, default: Any, partitions: Any, *, row_partition_types: Any) -> Any:
    if row_partition_types[0] == b"FIRST_DIM_SIZE":
        rows: Any = [[] for _ in range(int(partitions[0]))]
        for value, row in zip(values, partitions[1], strict=True):
            rows[row].append(value)
        depth = 2
    else:
        rows = values
        for each in reversed(partitions):
            rows = [rows[a:b] for a, b in itertools.pairwise(each)]
        depth = len(partitions) + 1
    dims = [-1] * (depth + values.ndim - 1) if not shape.ndim else shape.tolist()
    widths = [0] * depth
    cells: list[tuple[tuple[int, ...], Any]] = []

    def walk(row: Any, place: tuple[int, ...]) -> None:
        if len(place) == depth:
            cells.append((place, row))
            return
        widths[len(place)] = max(widths[len(place)], len(row))
        for number, inner in enumerate(row):
            walk(inner, (*place, number))

    walk(rows, ())
    size = [
        have if want == -1 else want for want, have in zip(dims, [*widths, *values.shape[1:]], strict=True)
    ]
    out = np.empty(size, values.dtype)
    out[...] = default
    for place, value in cells:
        if all(i < n for i, n in zip(place, size, strict=False)):
            out[place] = value
    return out


_OF_RAGGED_PADDING: Final = [
    OpRecord(
        "RaggedTensorToTensor",
        [
            sample(-1, _VALUES_RAGGED_PADDING, 9.0, [_SPLITS_RAGGED_PADDING], **_ROWS),
            sample([2, 4], _VALUES_RAGGED_PADDING, 9.0, [_SPLITS_RAGGED_PADDING], **_ROWS),
            sample([-1, 2], _VALUES_RAGGED_PADDING, 9.0, [_SPLITS_RAGGED_PADDING], **_ROWS),
            sample([0, -1], _VALUES_RAGGED_PADDING, 9.0, [_SPLITS_RAGGED_PADDING], **_ROWS),
            sample([-1, -1, 2], np.arange(10.0).reshape(5, 2), [7.0, 8.0], [_SPLITS_RAGGED_PADDING], **_ROWS),
            sample(
                -1,
                _VALUES_RAGGED_PADDING,
                9.0,
                [[0, 1, 3], _SPLITS_RAGGED_PADDING],
                row_partition_types=[b"ROW_SPLITS"] * 2,
            ),
            sample(
                [-1, 1, 2],
                _VALUES_RAGGED_PADDING,
                9.0,
                [[0, 1, 3], _SPLITS_RAGGED_PADDING],
                row_partition_types=[b"ROW_SPLITS"] * 2,
            ),
            sample(-1, _VALUES_RAGGED_PADDING, 9.0, [4, [0, 0, 2, 2, 2]], **_IDS),
        ],
        _padded,
        [
            bad(
                "InvalidArgumentError",
                "only valid scalar",
                3,
                _VALUES_RAGGED_PADDING,
                9.0,
                [_SPLITS_RAGGED_PADDING],
                **_ROWS,
            ),
            bad(
                "InvalidArgumentError",
                "incompatible",
                [3],
                _VALUES_RAGGED_PADDING,
                9.0,
                [_SPLITS_RAGGED_PADDING],
                **_ROWS,
            ),
            bad(
                "InvalidArgumentError",
                "broadcast",
                -1,
                _VALUES_RAGGED_PADDING,
                [9.0, 8.0],
                [_SPLITS_RAGGED_PADDING],
                **_ROWS,
            ),
            bad(
                "InternalError",
                "5 values",
                -1,
                _VALUES_RAGGED_PADDING[:4],
                9.0,
                [_SPLITS_RAGGED_PADDING],
                **_ROWS,
            ),
            bad(
                "InvalidArgumentError",
                "names row 2 of 1",
                -1,
                _VALUES_RAGGED_PADDING,
                9.0,
                [1, [0, 0, 2, 2, 2]],
                **_IDS,
            ),
        ],
        {"T": MOVED},
        partial=True,
        differentiable=True,
    ),
]


RECORDS: Final = [*_OF_RAGGED, *_OF_RAGGED_PADDING]
