"""Values looked for in a tensor: their places, distinct ones, those that are not zero."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, REALS, OpRecord, bad, sample, told

# Where values stand in sorted rows, and what flat positions mean in a shape.

_OF_SEARCH: Final = [
    OpRecord(
        "LowerBound",
        [sample([[0.0, 3.0, 9.0], [1.0, 2.0, 3.0]], [[2.0, 9.0], [0.0, 3.0]])],
        lambda s, v: np.stack([np.searchsorted(a, b) for a, b in zip(s, v, strict=True)]),
        dtypes={"T": REALS},
    ),
    OpRecord(
        "UpperBound",
        [sample([[0.0, 3.0, 9.0], [1.0, 2.0, 3.0]], [[2.0, 9.0], [0.0, 3.0]])],
        lambda s, v: np.stack([np.searchsorted(a, b, "right") for a, b in zip(s, v, strict=True)]),
        dtypes={"T": REALS},
    ),
    OpRecord(
        "UnravelIndex",
        [
            sample([22, 3, 7], [5, 6]),
            sample(3, [2, 2]),
            told([[-23, -4, -8], [5, 6]], [[[-3, 0, -1], [-5, -4, -2]]], {}),
        ],
        lambda i, dims: np.array(np.unravel_index(i, tuple(dims))),
        [bad("InvalidArgumentError", "", [30], [5, 6])],
    ),
]


# The coordinates of what is not zero.

_OF_WHERE: Final = [
    OpRecord(
        "Where",
        [sample([[1.0, 0.0], [0.0, -2.0]]), sample(np.zeros((0, 2)))],
        np.argwhere,
        dtypes={"T": MOVED},
        partial=True,
    ),
]


# Distinct values, and what is in one list but not in another.


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


_OF_UNIQUE: Final = [
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


# Whether a tensor counts as true.


def _truth(x: Any) -> Any:
    if x.ndim:
        return x.size > 0
    return len(x.item()) > 0 if x.dtype == object else x.item() != 0


_OF_TRUTH: Final = [
    OpRecord(
        "ToBool",
        [
            *(sample(value) for value in (0.0, 2.0, [0.0], np.zeros((0, 3)), [[1.0]])),
            sample(np.nan, T="float32"),
            sample(b"", T="string"),
            sample(b"0", T="string"),
            sample([b""], T="string"),
        ],
        _truth,
        dtypes={"T": ("float32", "int32", "uint8", "bool", "bfloat16", "complex64", "float64")},
    ),
]


RECORDS: Final = [*_OF_SEARCH, *_OF_WHERE, *_OF_UNIQUE, *_OF_TRUTH]
