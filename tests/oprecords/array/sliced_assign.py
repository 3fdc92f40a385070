"""Assignment to a strided slice of a variable."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, sample
from tests.oprecords.slices import WithMasks, strided_update

_M = np.arange(12.0).reshape(3, 4) - 3
_T = {"T": MOVED}
_ONES = [1, 1]

RECORDS: Final = [
    OpRecord(
        "StridedSliceAssign",
        [sample(_M, [0, 1], [2, 3], _ONES, np.ones((2, 2)))],
        WithMasks(strided_update),
        dtypes=_T,
        updates=True,
    ),
    OpRecord(
        "ResourceStridedSliceAssign",
        [sample(_M, [0, 1], [2, 3], _ONES, np.ones((2, 2)))],
        WithMasks(strided_update),
        dtypes=_T,
        updates=True,
    ),
]
