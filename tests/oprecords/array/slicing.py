"""Slices, and the gradient of a strided one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample
from tests.oprecords.slices import WithMasks, strided_index, strided_update

_M = np.arange(12.0).reshape(3, 4) - 3
_CUBE = np.arange(24.0).reshape(2, 3, 4)
_T = {"T": MOVED}


def _strided(x: Any, begin: Any, end: Any, strides: Any, **masks: int) -> Any:
    return x[strided_index(begin, end, strides, masks)]


def _strided_grad(shape: Any, begin: Any, end: Any, strides: Any, dy: Any, **masks: int) -> Any:
    result = np.zeros(tuple(shape), dy.dtype)
    result[strided_index(begin, end, strides, masks)] = dy
    return result


_ONES = [1, 1]
_SLICES = [
    sample(_M, [0, 1], [2, 3], _ONES),
    sample(_M, [2, -1], [0, 0], [-1, -2]),
    sample(_M, [1, 0], [2, 2], _ONES, shrink_axis_mask=1, begin_mask=2),
    sample(_CUBE, [0, 0, 1], [0, 0, 3], [1, 1, 1], ellipsis_mask=1, new_axis_mask=2),
    sample(_M, [2, 0], [1, 4], _ONES),
]
_STRIDE_ZERO = bad("InvalidArgumentError", "zero", _M, [0, 0], [1, 1], [1, 0])

RECORDS: Final = [
    OpRecord(
        "Slice",
        [sample(_M, [1, 0], [2, 3]), sample(_M, [0, 2], [-1, -1]), sample(_M, [3, 0], [0, 4])],
        lambda x, b, s: x[
            tuple(slice(int(i), None if n < 0 else int(i + n)) for i, n in zip(b, s, strict=True))
        ],
        [
            bad("InvalidArgumentError", "5", _M, [1, 0], [2, 5]),
            bad("InvalidArgumentError", "4", _M, [4, 0], [0, 1]),
        ],
        _T,
        differentiable=True,
    ),
    OpRecord("StridedSlice", _SLICES, WithMasks(_strided), [_STRIDE_ZERO], _T, differentiable=True),
    OpRecord(
        "StridedSliceGrad",
        [
            sample([3, 4], [0, 1], [2, 3], _ONES, np.ones((2, 2))),
            sample([3, 4], [2, 0], [0, 4], [-1, 2], np.ones((2, 2))),
        ],
        WithMasks(_strided_grad),
        [bad("InvalidArgumentError", "", [3, 4], [0, 1], [2, 3], _ONES, np.ones((3, 2)))],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "TensorStridedSliceUpdate",
        [
            sample(_M, [0, 1], [2, 3], _ONES, np.ones((2, 2))),
            sample(_M, [0, 1], [2, 3], _ONES, [8, 9]),
            sample(_M, [0, 1], [2, 3], _ONES, [[[8], [9]]]),
        ],
        WithMasks(strided_update),
        [
            bad("InvalidArgumentError", "[3] cannot be", _M, [0, 1], [2, 3], _ONES, np.ones(3)),
            bad("InvalidArgumentError", "vectors", _M, [[0, 1]], [2, 3], _ONES, np.ones((2, 2))),
        ],
        dtypes=_T,
        differentiable=True,
    ),
]
