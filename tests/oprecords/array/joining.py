"""Tensors put together and taken apart along an axis."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

_M = np.arange(12.0).reshape(3, 4) - 3
_NOTHING = np.zeros((0, 4))
_T = {"T": MOVED}


def _offsets(axis: Any, shapes: Any) -> list[Any]:
    at, result = 0, []
    for shape in shapes:
        offset = np.zeros_like(shape)
        offset[int(axis)] = at
        at += shape[int(axis)]
        result.append(offset)
    return result


def _split(count: int, axis: Any, x: Any) -> Any:
    return np.split(x, count, int(axis))


RECORDS: Final = [
    OpRecord(
        "ConcatV2",
        [
            sample([_M, _M[:1]], 0),
            sample([_M, _M], -1),
            sample([_NOTHING, _M], 0),
        ],
        lambda xs, axis: np.concatenate(xs, int(axis)),
        [bad("InvalidArgumentError", "", [_M, _M[:, :2]], 0), bad("InvalidArgumentError", "2", [_M, _M], 2)],
        {"T": MOVED},
        differentiable=True,
    ),
    OpRecord(
        "Concat",
        [sample(0, [_M, _M[:1]])],
        lambda axis, xs: np.concatenate(xs, int(axis)),
        [bad("InvalidArgumentError", "", 0, [_M, _M[:, :2]])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "ParallelConcat",
        [sample([_M[:1], _M[1:2]], shape=[2, 4])],
        lambda xs: np.concatenate(xs),
        dtypes=_T,
        differentiable=True,
    ),
    OpRecord(
        "ConcatOffset",
        [sample(1, [[2, 3], [2, 5], [2, 1]])],
        _offsets,
        [bad("InvalidArgumentError", "", 0, [[2, 3], [2, 5]])],
    ),
    OpRecord(
        "Pack",
        [sample([_M, _M]), sample([_M, _M], axis=-1), sample([1.0, 2.0]), sample([_NOTHING])],
        lambda xs, *, axis: np.stack(xs, axis),
        [bad("InvalidArgumentError", "", [_M, _M[:2]]), bad("InvalidArgumentError", "4", [_M, _M], axis=4)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Unpack",
        [sample(_M, num=3), sample(_M, num=4, axis=-1), sample(np.zeros((2, 0)), num=2)],
        lambda x, *, axis: list(np.moveaxis(x, axis, 0)),
        [bad("InvalidArgumentError", "2", _M, num=2)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Split",
        [sample(1, _M, num_split=2), sample(-2, _M, num_split=3)],
        lambda axis, x, *, num_split: _split(num_split, axis, x),
        [bad("InvalidArgumentError", "3", 1, _M, num_split=3)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "SplitV",
        [sample(_M, [1, 3], 1, num_split=2), sample(_M, [2, -1, 0], 0, num_split=3)],
        lambda x, sizes, axis: np.split(
            x,
            np.cumsum(np.where(sizes < 0, x.shape[int(axis)] - sizes[sizes > 0].sum(), sizes))[:-1],
            int(axis),
        ),
        [bad("InvalidArgumentError", "", _M, [1, 1], 1, num_split=2)],
        _T,
        differentiable=True,
    ),
]
