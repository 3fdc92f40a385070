"""Reductions of rows, or of gathered rows, that carry the same id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

# Reductions of rows that carry the same id.

_M = np.arange(12.0).reshape(4, 3) - 3
_SUMS: dict[str, Sequence[str]] = {"T": ("float32", "float64", "int32", "float16", "complex64")}
_ORDERED: dict[str, Sequence[str]] = {"T": ("int32", "int64", "float64")}
_SEGMENT_TYPES: dict[str, dict[str, Sequence[str]]] = {
    "Mean": {"T": ("float32", "float64")},
    "Max": {"T": ("float32", "float64", "int32")},
    "Min": {"T": ("float32", "float64", "int32")},
}
_SEGMENTS = [sample(_M, [0, 0, 2, 2]), sample(_M[:, 0], [0, 1, 1, 3])]
_UNSORTED = [
    sample(_M, [2, -1, 0, 2], 3),
    sample(_M[:, 0], [0, 1, 1, 0], 2),
    sample(np.zeros((0, 2)), np.zeros((0,)), 2, T="int32"),
]
#: Ids of 16 bits, more segments than those can count.
_SHORT = sample(_M, [2, -1, 0, 2], 40_000, T="float32", Tindices="int16", Tnumsegments="int32")
_SORTED_BAD = [bad("InvalidArgumentError", "", _M, [0, 2, 1, 3]), bad("InvalidArgumentError", "", _M, [0, 1])]


def _segment(reduce: Callable[..., Any], gap: float) -> Callable[..., Any]:
    def reference(x: Any, ids: Any) -> Any:
        rows = [
            reduce(x[ids == i], 0) if (ids == i).any() else np.full(x.shape[1:], gap)
            for i in range(int(ids[-1]) + 1)
        ]
        return np.stack(rows).astype(x.dtype)

    return reference


def _unsorted(reduce: Callable[..., Any], gap: Callable[[Any], Any]) -> Callable[..., Any]:
    def reference(x: Any, ids: Any, count: Any) -> Any:
        rows = [
            reduce(x[ids == i], 0) if (ids == i).any() else np.full(x.shape[1:], gap(x.dtype))
            for i in range(int(count))
        ]
        return np.stack(rows)

    return reference


def _limits(dtype: Any) -> Any:
    return np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)


def _segment_records() -> list[OpRecord]:
    found = []
    for name, reduce, gap in (
        ("Sum", np.sum, 0),
        ("Mean", np.mean, 0),
        ("Prod", np.prod, 1),
        ("Max", np.max, 0),
        ("Min", np.min, 0),
    ):
        dtypes = _SEGMENT_TYPES.get(name, _SUMS)
        found.append(
            OpRecord(
                f"Segment{name}",
                _SEGMENTS,
                _segment(reduce, gap),
                _SORTED_BAD,
                dtypes,
                loose=2,
                partial=True,
                differentiable=True,
            )
        )
    for name, reduce, gap_of in (
        ("Sum", np.sum, lambda _: 0),
        ("Prod", np.prod, lambda _: 1),
        ("Max", np.max, lambda d: _limits(d).min),
        ("Min", np.min, lambda d: _limits(d).max),
    ):
        dtypes = _ORDERED if name in ("Max", "Min") else _SUMS
        wrong = [
            bad("InvalidArgumentError", "7", _M, [0, 1, 7, 2], 3),
            bad("InvalidArgumentError", "-1", _M, [0, 1, 1, 2], -1),
        ]
        found.append(
            OpRecord(
                f"UnsortedSegment{name}",
                [*_UNSORTED, *([_SHORT] if name == "Sum" else [])],
                _unsorted(reduce, gap_of),
                wrong,
                dtypes,
                differentiable=True,
            )
        )
    return found


_OF_SEGMENTS: Final = [
    *_segment_records(),
]


# Reductions over segments whose number is given.

_DATA: Final = np.arange(10.0).reshape(5, 2) * 3 % 7 - 2


def _reduced(reduce: Callable[..., Any], empty: float | None) -> Callable[..., Any]:
    def reference(data: Any, ids: Any, count: Any) -> Any:
        least = np.iinfo(data.dtype).min if data.dtype.kind in "iu" else None
        rows = []
        for segment in range(int(count)):
            inside = data[ids == segment]
            if len(inside) or empty is not None:
                rows.append(reduce(inside, axis=0) if len(inside) else np.full(data.shape[1:], empty))
            else:
                rows.append(np.full(data.shape[1:], least))
        return np.array(rows).reshape(int(count), *data.shape[1:])

    return reference


_SAMPLES: Final = [
    sample(_DATA, [0, 0, 1, 1, 2], 3),
    sample(_DATA, [0, 1, 1, 2, 2], 3, Tindices="int64", Tnumsegments="int64"),
]
_GAPS: Final = [sample(_DATA, [0, 0, 2, 2, 2], 4), sample(_DATA[:0], np.zeros(0), 2)]
_BAD: Final = [
    bad("InvalidArgumentError", "3", _DATA, [0, 0, 1, 1, 3], 3),
    bad("InvalidArgumentError", "-1", _DATA, [0, 0, 1, 1, 2], -1),
]

_OF_COUNTED_SEGMENTS: Final = [
    OpRecord("SegmentSumV2", [*_SAMPLES, *_GAPS], _reduced(np.sum, 0), _BAD, differentiable=True),
    OpRecord("SegmentProdV2", [*_SAMPLES, *_GAPS], _reduced(np.prod, 1), _BAD, differentiable=True),
    OpRecord("SegmentMaxV2", _SAMPLES, _reduced(np.max, None), _BAD, differentiable=True),
    OpRecord("SegmentMinV2", _SAMPLES, _reduced(np.min, None), _BAD, differentiable=True),
]


# Reductions of picked rows by segment, as embedding look-ups need them, and their gradients.

_M_SPARSE_SEGMENTS = np.arange(12.0).reshape(4, 3) - 3


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
    picks = [sample(_M_SPARSE_SEGMENTS, [3, 0, 0, 1], [0, 0, 1, 3])]
    counted = [sample(_M_SPARSE_SEGMENTS, [3, 0, 0, 1], [0, 0, 1, 3], 6)]
    grads = [sample(_M_SPARSE_SEGMENTS, [2, 0, 0, 1], [0, 0, 1, 3], 5)]
    dtypes, two = {"T": ("float32", "float64"), "Tsegmentids": ("int32", "int64")}, 2.0
    found = []
    for name, scale in _SCALES.items():
        wrong = [
            bad("InvalidArgumentError", "9", _M_SPARSE_SEGMENTS, [9], [0]),
            bad("InvalidArgumentError", "", _M_SPARSE_SEGMENTS, [0, 1], [0]),
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
        wrong = [bad("InvalidArgumentError", "9", _M_SPARSE_SEGMENTS, [9], [0], 5)]
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


_OF_SPARSE_SEGMENTS: Final = [
    *_sparse_segment_records(),
]


RECORDS: Final = [*_OF_SEGMENTS, *_OF_COUNTED_SEGMENTS, *_OF_SPARSE_SEGMENTS]
