"""Rows of a tensor replaced."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import OpRecord, sample, told
from tests.oprecords.scatters import scattered

_M = np.arange(12.0).reshape(4, 3) - 3

RECORDS: Final = [
    *[
        OpRecord(
            f"Inplace{name}",
            [sample(_M, [2, 0], np.ones((2, 3))), told([_M[:0], [2, 0], np.ones((2, 3))], [_M[:0]], {})],
            scattered(ufunc),
            dtypes={"T": ("float32", "int32")},
            differentiable=True,
        )
        for name, ufunc in (("Update", None), ("Add", np.add), ("Sub", np.subtract))
    ],
]
