"""Assignment to a strided slice of a variable."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample
from tests.oprecords.slices import WithMasks, strided_update

_M = np.arange(12.0).reshape(3, 4) - 3
_T = {"T": MOVED}
_ONES = [1, 1]

#: The value is of the slice's shape, or is broadcast to it.
_SAMPLES: Final = [
    sample(_M, [0, 1], [2, 3], _ONES, np.ones((2, 2))),
    sample(_M, [0, 1], [2, 3], _ONES, [8, 9]),
    sample(_M, [0, 1], [2, 3], _ONES, [[[8], [9]]]),
]
_BAD: Final = bad("InvalidArgumentError", "[3] cannot be broadcast", _M, [0, 1], [2, 3], _ONES, np.ones(3))

RECORDS: Final = [
    OpRecord(
        "StridedSliceAssign",
        _SAMPLES,
        WithMasks(strided_update),
        [_BAD],
        dtypes=_T,
        updates=True,
    ),
    OpRecord(
        "ResourceStridedSliceAssign",
        _SAMPLES,
        WithMasks(strided_update),
        [_BAD],
        dtypes=_T,
        updates=True,
    ),
]
