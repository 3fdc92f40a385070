"""Distinct values, and what is in one list but not in another."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import REALS, OpRecord, bad, sample


def _unique(x: Any) -> tuple[Any, Any, Any]:
    seen: dict[Any, int] = {}
    index = [seen.setdefault(v, len(seen)) for v in x.tolist()]
    return (
        np.array(list(seen), x.dtype),
        np.array(index, int),
        np.bincount(np.array(index, int), minlength=len(seen)),
    )


def _list_diff(x: Any, y: Any) -> tuple[Any, Any]:
    keep = [i for i, v in enumerate(x.tolist()) if v not in set(y.tolist())]
    return x[keep], np.array(keep, int)


RECORDS: Final = [
    OpRecord(
        "Unique",
        [sample([1.0, 1.0, 2.0, 4.0, 1.0]), sample(np.zeros((0,)))],
        lambda x: _unique(x)[:2],
        [bad("InvalidArgumentError", "", [[1.0]])],
        {"T": REALS},
        partial=True,
    ),
    OpRecord(
        "UniqueWithCounts",
        [sample([1.0, 1.0, 2.0, 4.0, 1.0]), sample(np.zeros((0,)))],
        _unique,
        dtypes={"T": REALS},
        partial=True,
    ),
    OpRecord(
        "UniqueV2",
        [sample([1.0, 1.0, 2.0], [0]), sample([3.0, 1.0, 3.0], np.zeros((0,)))],
        lambda x, a: _unique(x)[:2],
        dtypes={"T": REALS},
        partial=True,
    ),
    OpRecord(
        "UniqueWithCountsV2",
        [sample([1.0, 1.0, 2.0], [0])],
        lambda x, a: _unique(x),
        dtypes={"T": REALS},
        partial=True,
    ),
    OpRecord(
        "ListDiff",
        [sample([1.0, 2.0, 3.0, 2.0], [1.0, 3.0]), sample(np.zeros((0,)), [1.0])],
        _list_diff,
        dtypes={"T": REALS},
        partial=True,
    ),
]
