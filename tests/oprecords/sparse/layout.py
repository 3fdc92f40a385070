"""Sparse tensors joined, split, sliced, reordered and filled, beside what the dense tensors give."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample, told

_INDICES: Final = [[0, 1], [1, 0], [1, 3], [3, 2]]
_VALUES: Final = [1.0, -2.0, 3.0, 4.0]
_SHAPE: Final = [4, 5]
_NONE: Final = np.zeros((0, 2))
_EMPTY: Final = np.zeros(0)


def _dict(indices: Any, values: Any) -> dict[tuple[int, ...], Any]:
    return {tuple(place): value for place, value in zip(indices.tolist(), values, strict=True)}


def _parts(entries: dict[tuple[int, ...], Any], rank: int, dtype: Any) -> tuple[Any, Any]:
    places = np.array(sorted(entries), np.int64).reshape(-1, rank)
    return places, np.array([entries[place] for place in sorted(entries)], dtype)


def _reorder(indices: Any, values: Any, shape: Any) -> Any:
    return _parts(_dict(indices, values), len(shape), values.dtype)


def _concat(indices: Any, values: Any, shapes: Any, *, concat_dim: int) -> Any:
    entries: dict[tuple[int, ...], Any] = {}
    start = 0
    for places, own, shape in zip(indices, values, shapes, strict=True):
        moved = places.copy()
        moved[:, concat_dim] += start
        entries |= _dict(moved, own)
        start += shape[concat_dim]
    total = shapes[0].copy()
    total[concat_dim] = start
    return (*_parts(entries, len(total), values[0].dtype), total)


def _split(axis: Any, indices: Any, values: Any, shape: Any, *, num_split: int) -> Any:
    borders = np.cumsum([0, *(len(part) for part in np.array_split(np.arange(shape[axis]), num_split))])
    found: list[list[Any]] = [[], [], []]
    for low, high in itertools.pairwise(borders):
        inside = (indices[:, axis] >= low) & (indices[:, axis] < high)
        places = indices[inside].copy()
        places[:, axis] -= low
        size = shape.copy()
        size[axis] = high - low
        for part, value in zip(found, (places, values[inside], size), strict=True):
            part.append(value)
    return [value for part in found for value in part]


def _slice(indices: Any, values: Any, shape: Any, start: Any, size: Any) -> Any:
    end = np.minimum(start + size, shape)
    inside = ((indices >= start) & (indices < end)).all(1)
    return indices[inside] - start, values[inside], np.maximum(end - start, 0)


def _slice_grad(grad: Any, before: Any, start: Any, after: Any) -> Any:
    rows = _dict(after + start, grad)
    return np.array([rows.get(tuple(place), 0) for place in before.tolist()])


def _reshape(indices: Any, shape: Any, new_shape: Any) -> Any:
    target = np.zeros(shape, bool).reshape(new_shape).shape
    flat = np.ravel_multi_index(tuple(indices.T), tuple(shape))
    return np.stack(np.unravel_index(flat, target), 1).reshape(-1, len(target)), np.array(target)


def _fill(indices: Any, values: Any, shape: Any, default: Any) -> Any:
    rows: list[list[tuple[Any, Any, int]]] = [[] for _ in range(shape[0])]
    for number, (place, value) in enumerate(zip(indices.tolist(), values, strict=True)):
        rows[place[0]].append((place, value, number))
    empty = [not row for row in rows]
    whole = [row or [([i] + [0] * (len(shape) - 1), default, -1)] for i, row in enumerate(rows)]
    flat = [entry for row in whole for entry in row]
    went = [0] * len(values)
    for at, (_, _, number) in enumerate(flat):
        if number >= 0:
            went[number] = at
    places = np.array([place for place, _, _ in flat]).reshape(-1, len(shape))
    return (
        places,
        np.array([value for _, value, _ in flat], values.dtype),
        np.array(empty, bool),
        np.array(went),
    )


def _fill_grad(where: Any, grad: Any) -> Any:
    rest = np.setdiff1d(np.arange(len(grad)), where)
    return grad[where], grad[rest].sum() if len(rest) else np.zeros((), grad.dtype)


_BROKEN: Final = [
    bad("InvalidArgumentError", "matrix", [0, 1], [1.0, 2.0], _SHAPE),
    bad("InvalidArgumentError", "2 elements", _INDICES, [1.0, 2.0], _SHAPE),
    bad("InvalidArgumentError", "2 columns", _INDICES, _VALUES, [4, 5, 1]),
]

RECORDS: Final = [
    OpRecord(
        "SparseReorder",
        [
            sample(_INDICES, _VALUES, _SHAPE),
            sample(_INDICES[::-1], _VALUES, _SHAPE),
            sample([[2], [0], [1]], [1.0, 2.0, 3.0], [3]),
            sample([[1, 2**40, 2**40], [0, 2**50, 7]], [1.0, 2.0], [2**20, 2**50, 2**50]),
            sample(_NONE, _EMPTY, [0, 5]),
        ],
        _reorder,
        _BROKEN,
        {"T": MOVED},
        differentiable=True,
    ),
    OpRecord(
        "SparseConcat",
        [
            sample([_INDICES, [[0, 0], [3, 1]]], [_VALUES, [5.0, 6.0]], [_SHAPE, [4, 2]], concat_dim=1),
            sample([_INDICES, [[0, 0], [3, 1]]], [_VALUES, [5.0, 6.0]], [_SHAPE, [4, 5]], concat_dim=-2),
            sample([_NONE, _NONE, _NONE], [_EMPTY, _EMPTY, _EMPTY], [_SHAPE, _SHAPE, _SHAPE], concat_dim=0),
        ],
        _concat,
        [
            bad("InvalidArgumentError", "got 2", [_INDICES] * 2, [_VALUES] * 2, [_SHAPE] * 2, concat_dim=2),
            bad(
                "InvalidArgumentError", "got 6", [_INDICES] * 2, [_VALUES] * 2, [_SHAPE, [4, 6]], concat_dim=0
            ),
            bad("InternalError", "overflow", [_NONE] * 2, [_EMPTY] * 2, [[2**62, 5]] * 2, concat_dim=0),
        ],
        {"T": MOVED},
        partial=True,
    ),
    OpRecord(
        "SparseSplit",
        [
            sample(0, _INDICES, _VALUES, _SHAPE, num_split=3),
            sample(-1, _INDICES, _VALUES, _SHAPE, num_split=2),
            sample(1, _INDICES[::-1], _VALUES, _SHAPE, num_split=1),
            sample(1, _NONE, _EMPTY, [0, 2], num_split=2),
        ],
        _split,
        [
            bad("InvalidArgumentError", "got 2", 2, _INDICES, _VALUES, _SHAPE, num_split=2),
            bad("InvalidArgumentError", "got 6", 1, _INDICES, _VALUES, _SHAPE, num_split=6),
        ],
        {"T": MOVED},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseSlice",
        [
            sample(_INDICES, _VALUES, _SHAPE, [1, 0], [2, 4]),
            sample(_INDICES, _VALUES, _SHAPE, [0, 2], [2**40, 2**40]),
            sample(_INDICES, _VALUES, _SHAPE, [7, 7], [1, 1]),
            sample(_NONE, _EMPTY, _SHAPE, [0, 0], [0, 3]),
            # What lies before the first row is empty.
            told([_INDICES, _VALUES, _SHAPE, [-1, 0], [2, 2]], [[[1, 1]], [1.0], [2, 2]], {"T": "float32"}),
        ],
        _slice,
        [
            bad("InvalidArgumentError", "negative", _INDICES, _VALUES, _SHAPE, [0, 0], [-1, 1]),
            bad("InvalidArgumentError", "one element for each", _INDICES, _VALUES, _SHAPE, [0], [1]),
        ],
        {"T": MOVED},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseSliceGrad",
        [
            sample([5.0, 6.0], _INDICES, [1, 0], [[0, 0], [0, 3]]),
            sample(_EMPTY, _INDICES, [1, 0], _NONE),
        ],
        _slice_grad,
        [
            bad("InvalidArgumentError", "1 elements", [5.0], _INDICES, [1, 0], [[0, 0], [0, 3]]),
            bad("InternalError", "not found", [5.0, 6.0], _INDICES, [1, 0], [[0, 0], [0, 4]]),
        ],
        differentiable=True,
    ),
    OpRecord(
        "SparseReshape",
        [
            sample(_INDICES, _SHAPE, [2, 10]),
            sample(_INDICES, _SHAPE, [-1]),
            sample(_INDICES, _SHAPE, [2, 2, -1]),
            sample(_INDICES, _SHAPE, _SHAPE),
            sample(_NONE, [0, 5], [5, 0]),
        ],
        _reshape,
        [
            bad("InvalidArgumentError", "both 0 and 1", _INDICES, _SHAPE, [-1, -1]),
            bad("InvalidArgumentError", "20 dense values", _INDICES, _SHAPE, [7]),
            bad("InvalidArgumentError", "multiple of 3", _INDICES, _SHAPE, [3, -1]),
            bad("InvalidArgumentError", "int64", _INDICES, _SHAPE, [2**40, 2**40]),
            bad("InvalidArgumentError", "infer", _NONE, [0, 5], [0, -1]),
        ],
        partial=True,
    ),
    OpRecord(
        "SparseFillEmptyRows",
        [
            sample(_INDICES, _VALUES, _SHAPE, 9.0),
            sample(_INDICES[::-1], _VALUES, _SHAPE, 9.0),
            sample([[0, 0], [1, 1]], [1.0, 2.0], [2, 2], 9.0),
            sample(_NONE, _EMPTY, [2, 3], 9.0),
            sample(_NONE, _EMPTY, [0, 3], 9.0),
        ],
        _fill,
        [
            bad("InvalidArgumentError", "indices(1, 0)", [[0, 0], [2, 0]], [1.0, 2.0], [2, 2], 9.0),
            bad("InvalidArgumentError", "dense_shape[0] = 0", [[0, 0]], [1.0], [0, 2], 9.0),
            bad("InvalidArgumentError", "scalar", _INDICES, _VALUES, _SHAPE, [9.0]),
        ],
        {"T": MOVED},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseFillEmptyRowsGrad",
        [sample([2, 0, 3], [1.0, 2.0, 3.0, 4.0, 5.0]), sample(_EMPTY, _EMPTY), sample([1, 0], [1.0, 2.0])],
        _fill_grad,
        [bad("InvalidArgumentError", "[1] = 5", [0, 5], [1.0, 2.0])],
        differentiable=True,
    ),
]
