"""Reductions of picked rows by segment, as embedding look-ups need them, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_M = np.arange(12.0).reshape(4, 3) - 3


def _sparse_segment(scale: Callable[[int], float]) -> Callable[..., Any]:
    def reference(x: Any, indices: Any, ids: Any, count: Any = None) -> Any:
        rows = int(ids[-1]) + 1 if count is None else int(count)
        result = np.zeros((rows, *x.shape[1:]), x.dtype)
        for i in range(rows):
            picked = x[indices[ids == i]]
            result[i] = picked.sum(0) * scale(len(picked)) if len(picked) else 0
        return result

    return reference


def _sparse_segment_grad(scale: Callable[[int], float]) -> Callable[..., Any]:
    def reference(g: Any, indices: Any, ids: Any, rows: Any) -> Any:
        result = np.zeros((int(rows), *g.shape[1:]), g.dtype)
        for row, segment in zip(indices, ids, strict=True):
            result[row] += g[segment] * scale(int((ids == segment).sum()))
        return result

    return reference


def _of_rows(reference: Callable[..., Any]) -> Callable[..., Any]:
    def rows_alone(g: Any, indices: Any, ids: Any, rows: Any) -> Any:
        picked = np.unique(indices)
        return reference(g, indices, ids, rows)[picked], picked

    return rows_alone


_SCALES = {"Sum": lambda n: 1.0, "Mean": lambda n: 1 / n, "SqrtN": lambda n: 1 / np.sqrt(n)}


def _sparse_segment_records() -> list[OpRecord]:
    picks = [sample(_M, [3, 0, 0, 1], [0, 0, 1, 3])]
    counted = [sample(_M, [3, 0, 0, 1], [0, 0, 1, 3], 6)]
    grads = [sample(_M, [2, 0, 0, 1], [0, 0, 1, 3], 5)]
    dtypes, two = {"T": ("float32", "float64"), "Tsegmentids": ("int32", "int64")}, 2.0
    found = []
    for name, scale in _SCALES.items():
        wrong = [
            bad("InvalidArgumentError", "9", _M, [9], [0]),
            bad("InvalidArgumentError", "", _M, [0, 1], [0]),
        ]
        found.append(
            OpRecord(
                f"SparseSegment{name}",
                picks,
                _sparse_segment(scale),
                wrong,
                dtypes,
                loose=two,
                partial=True,
                differentiable=True,
            )
        )
        found.append(
            OpRecord(
                f"SparseSegment{name}WithNumSegments",
                counted,
                _sparse_segment(scale),
                dtypes=dtypes,
                loose=two,
                differentiable=True,
            )
        )
        wrong = [bad("InvalidArgumentError", "9", _M, [9], [0], 5)]
        reference = _sparse_segment_grad(scale)
        found.append(
            OpRecord(
                f"SparseSegment{name}Grad", grads, reference, wrong, dtypes, loose=two, differentiable=True
            )
        )
        found.append(
            OpRecord(
                f"SparseSegment{name}GradV2",
                grads,
                _of_rows(reference),
                wrong,
                dtypes,
                loose=two,
                partial=True,
            )
        )
    return found


RECORDS: Final = [
    *_sparse_segment_records(),
]
