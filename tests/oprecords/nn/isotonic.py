"""Regression by rows that never rise."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, sample, told


def _regressed(x: Any) -> Any:
    """By its greatest mean to the left, least to the right: the min-max formula."""
    rows = x.reshape(-1, x.shape[-1]).astype(np.float64) if x.size else np.zeros((0, 0))
    out = np.zeros(rows.shape)
    for row, found in zip(rows, out, strict=True):
        for i in range(len(row)):
            found[i] = min(max(row[a : b + 1].mean() for b in range(i, len(row))) for a in range(i + 1))
    segments = np.zeros(out.shape, int)
    segments[:, 1:] = np.cumsum(~np.isclose(out[:, 1:], out[:, :-1]), axis=1)
    return out.reshape(x.shape), segments.reshape(x.shape)


RECORDS: Final = [
    OpRecord(
        "IsotonicRegression",
        [
            sample([[1.0, 3, 2, 4, 0]]),
            sample([[3.0, 2, 1], [1, 2, 3]]),
            sample([[[1.0, 3], [2, 4]]]),
            told([1.0], [1.0, 0], {}),
            sample([1.0, 2, 0, 5, -3, 1, -7]),
            sample(np.zeros((0, 3))),
            sample(np.zeros((2, 0))),
        ],
        _regressed,
        dtypes={"T": ("float32", "int32", "float64", "bfloat16"), "output_dtype": ("float32", "float64")},
        differentiable=True,
    ),
]
