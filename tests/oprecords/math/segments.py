"""Reductions of rows that carry the same id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

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


RECORDS: Final = [
    *_segment_records(),
]
