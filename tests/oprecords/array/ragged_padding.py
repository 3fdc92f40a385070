"""Ragged tensors as dense ones, beside loops over rows."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

_ROWS: Final = {"row_partition_types": [b"ROW_SPLITS"]}
_IDS: Final = {"row_partition_types": [b"FIRST_DIM_SIZE", b"VALUE_ROWIDS"]}
_VALUES: Final = [1.0, 2.0, 3.0, 4.0, 5.0]
_SPLITS: Final = [0, 2, 2, 5]


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


RECORDS: Final = [
    OpRecord(
        "RaggedTensorToTensor",
        [
            sample(-1, _VALUES, 9.0, [_SPLITS], **_ROWS),
            sample([2, 4], _VALUES, 9.0, [_SPLITS], **_ROWS),
            sample([-1, 2], _VALUES, 9.0, [_SPLITS], **_ROWS),
            sample([0, -1], _VALUES, 9.0, [_SPLITS], **_ROWS),
            sample([-1, -1, 2], np.arange(10.0).reshape(5, 2), [7.0, 8.0], [_SPLITS], **_ROWS),
            sample(-1, _VALUES, 9.0, [[0, 1, 3], _SPLITS], row_partition_types=[b"ROW_SPLITS"] * 2),
            sample([-1, 1, 2], _VALUES, 9.0, [[0, 1, 3], _SPLITS], row_partition_types=[b"ROW_SPLITS"] * 2),
            sample(-1, _VALUES, 9.0, [4, [0, 0, 2, 2, 2]], **_IDS),
        ],
        _padded,
        [
            bad("InvalidArgumentError", "only valid scalar", 3, _VALUES, 9.0, [_SPLITS], **_ROWS),
            bad("InvalidArgumentError", "incompatible", [3], _VALUES, 9.0, [_SPLITS], **_ROWS),
            bad("InvalidArgumentError", "broadcast", -1, _VALUES, [9.0, 8.0], [_SPLITS], **_ROWS),
            bad("InternalError", "5 values", -1, _VALUES[:4], 9.0, [_SPLITS], **_ROWS),
            bad("InvalidArgumentError", "names row 2 of 1", -1, _VALUES, 9.0, [1, [0, 0, 2, 2, 2]], **_IDS),
        ],
        {"T": MOVED},
        partial=True,
        differentiable=True,
    ),
]
