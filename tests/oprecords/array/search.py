"""Where values stand in sorted rows, and what flat positions mean in a shape."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import REALS, OpRecord, bad, sample, told

RECORDS: Final = [
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
