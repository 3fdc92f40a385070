"""The greatest elements of rows, where an accelerator may miss some."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_ROWS: Final = np.array([[1.0, 3, 2, -3], [5, -4, 0, 4], [4, 2, 1, 9]])
_TIED: Final = np.array([1.0, 3, 2, 3])


def _top(x: Any, *, k: int, reduction_dimension: int, is_max_k: bool) -> Any:
    places = np.argsort(-x if is_max_k else x, axis=reduction_dimension, kind="stable")
    places = np.take(places, range(k), reduction_dimension)
    return np.take_along_axis(x, places, reduction_dimension), places


RECORDS: Final = [
    OpRecord(
        "ApproxTopK",
        [
            sample(_ROWS, k=2),
            sample(_ROWS, k=0),
            sample(_ROWS, k=2, is_max_k=False),
            sample(_ROWS, k=3, reduction_dimension=0),
            sample(_ROWS[None], k=2, reduction_dimension=-2, is_max_k=False),
            sample(_TIED, k=1),
            sample(_ROWS[0], k=2, aggregate_to_topk=False),
        ],
        _top,
        [
            bad("InvalidArgumentError", "k columns", _ROWS, k=9),
            bad("InvalidArgumentError", "2", _ROWS, k=1, reduction_dimension=2),
        ],
        differentiable=True,
    ),
]
