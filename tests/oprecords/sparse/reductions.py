"""Reductions of sparse tensors, beside those of dense ones."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import NUMBERS, REALS, OpRecord, bad, sample

_A: Final = ([[0, 0, 1], [0, 1, 0], [1, 1, 0], [1, 1, 2]], [1.0, 2.0, -3.0, 4.0], [2, 3, 4])
_NOTHING: Final = (np.zeros((0, 2)), np.zeros(0), [4, 5])


def _groups(indices: Any, values: Any, shape: Any, axes: Any) -> tuple[dict[tuple[int, ...], Any], list[int]]:
    """({place with reduced axes at zero: its values}, reduced axes)"""
    gone = [int(a) % len(shape) for a in axes.reshape(-1)]
    found: dict[tuple[int, ...], Any] = {}
    for place, value in zip(indices.tolist(), values, strict=True):
        found.setdefault(tuple(0 if i in gone else p for i, p in enumerate(place)), []).append(value)
    return found, gone


def _dense(reduce: Any) -> Any:
    def reference(indices: Any, values: Any, shape: Any, axes: Any, *, keep_dims: bool) -> Any:
        found, gone = _groups(indices, values, shape, axes)
        out = np.zeros([1 if i in gone else d for i, d in enumerate(shape)], values.dtype)
        for place, group in found.items():
            out[place] = reduce(group)
        return out if keep_dims else out.squeeze(tuple(set(gone)))

    return reference


def _sparse(reduce: Any) -> Any:
    def reference(indices: Any, values: Any, shape: Any, axes: Any, *, keep_dims: bool) -> Any:
        found, gone = _groups(indices, values, shape, axes)
        places = np.array(sorted(found), np.int64).reshape(-1, len(shape))
        dims = np.array([1 if i in gone else d for i, d in enumerate(shape)])
        kept = [i for i in range(len(shape)) if keep_dims or i not in gone]
        return places[:, kept], np.array([reduce(found[p]) for p in sorted(found)], values.dtype), dims[kept]

    return reference


_SAMPLES: Final = [
    sample(*_A, [1]),
    sample(*_A, [-1, 0], keep_dims=True),
    sample(*_A, [0, 1, 2]),
    sample(*_A, np.zeros(0)),
    sample(*_A, 2),
    sample(*_NOTHING, [0]),
]
_BAD: Final = [
    bad("InvalidArgumentError", "Invalid reduction dimension 3", *_A, [3]),
    bad("InvalidArgumentError", "matrix", [0, 1], [1.0, 2.0], [2], [0]),
]
_OUTSIDE: Final = bad("InternalError", "[4]", [[4, 0]], [1.0], [4, 5], [1])

RECORDS: Final = [
    OpRecord(
        "SparseReduceSum",
        _SAMPLES,
        _dense(sum),
        [*_BAD, _OUTSIDE],
        {"T": NUMBERS},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseReduceMax",
        _SAMPLES,
        _dense(max),
        [*_BAD, _OUTSIDE],
        {"T": REALS},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseReduceSumSparse",
        _SAMPLES,
        _sparse(sum),
        _BAD,
        {"T": NUMBERS},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseReduceMaxSparse", _SAMPLES, _sparse(max), _BAD, {"T": REALS}, partial=True, differentiable=True
    ),
]
