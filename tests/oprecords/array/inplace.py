"""Rows and strided slices that are written over."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample, told
from tests.oprecords.scatters import scattered
from tests.oprecords.slices import WithMasks, strided_update

# Rows of a tensor replaced.

_M = np.arange(12.0).reshape(4, 3) - 3

_OF_INPLACE: Final = [
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


# Assignment to a strided slice of a variable.

_M_SLICED_ASSIGN = np.arange(12.0).reshape(3, 4) - 3
_T = {"T": MOVED}
_ONES = [1, 1]

#: The value is of the slice's shape, or is broadcast to it.
_SAMPLES: Final = [
    sample(_M_SLICED_ASSIGN, [0, 1], [2, 3], _ONES, np.ones((2, 2))),
    sample(_M_SLICED_ASSIGN, [0, 1], [2, 3], _ONES, [8, 9]),
    sample(_M_SLICED_ASSIGN, [0, 1], [2, 3], _ONES, [[[8], [9]]]),
]
_BAD: Final = bad(
    "InvalidArgumentError", "[3] cannot be broadcast", _M_SLICED_ASSIGN, [0, 1], [2, 3], _ONES, np.ones(3)
)

_OF_SLICED_ASSIGN: Final = [
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


RECORDS: Final = [*_OF_INPLACE, *_OF_SLICED_ASSIGN]
