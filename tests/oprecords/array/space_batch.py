"""Blocks of space moved to the batch or the depth, and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

_T = {"T": MOVED}


def _space_to_batch(x: Any, block: Any, paddings: Any) -> Any:
    rank = len(block)
    x = np.pad(x, [(0, 0), *map(tuple, paddings), *[(0, 0)] * (x.ndim - rank - 1)])
    return np.concatenate(
        [
            x[(slice(None), *(slice(o, None, int(b)) for o, b in zip(offset, block, strict=True)))]
            for offset in np.ndindex(*map(int, block))
        ]
    )


def _batch_to_space(x: Any, block: Any, crops: Any) -> Any:
    count = int(np.prod(block))
    batch = x.shape[0] // count
    spatial = [n * int(b) for n, b in zip(x.shape[1:], block, strict=False)]
    result = np.zeros((batch, *spatial, *x.shape[1 + len(block) :]), x.dtype)
    for i, offset in enumerate(np.ndindex(*map(int, block))):
        place = (slice(None), *(slice(o, None, int(b)) for o, b in zip(offset, block, strict=True)))
        result[place] = x[i * batch : (i + 1) * batch]
    return result[
        (slice(None), *(slice(int(a), n - int(b)) for (a, b), n in zip(crops, spatial, strict=True)))
    ]


def _space_to_depth(x: Any, *, block_size: int) -> Any:
    n, h, w, c = x.shape
    b = block_size
    return (
        x.reshape(n, h // b, b, w // b, b, c)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(n, h // b, w // b, b * b * c)
    )


def _depth_to_space(x: Any, *, block_size: int) -> Any:
    n, h, w, c = x.shape
    b = block_size
    return (
        x.reshape(n, h, w, b, b, c // b // b)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(n, h * b, w * b, c // b // b)
    )


_IMAGE = np.arange(32.0).reshape(1, 4, 4, 2)
_BLOCKS = [sample(_IMAGE, [2, 2], [[0, 0], [0, 0]]), sample(_IMAGE[:, :3], [2, 2], [[1, 0], [0, 2]])]
_UNBLOCKS = [
    sample(np.arange(32.0).reshape(4, 2, 2, 2), [2, 2], crops)
    for crops in ([[0, 0], [0, 0]], [[1, 0], [0, 1]])
]

RECORDS: Final = [
    OpRecord(
        "SpaceToBatchND",
        _BLOCKS,
        _space_to_batch,
        [bad("InvalidArgumentError", "3", _IMAGE, [3, 2], [[0, 0], [0, 0]])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "BatchToSpaceND",
        _UNBLOCKS,
        _batch_to_space,
        [bad("InvalidArgumentError", "", _IMAGE, [2, 2], [[0, 0], [0, 0]])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "SpaceToBatch",
        [sample(_IMAGE, [[0, 0], [2, 0]], block_size=2)],
        lambda x, p, *, block_size: _space_to_batch(x, [block_size] * 2, p),
        [bad("InvalidArgumentError", "", _IMAGE, [[1, 0], [0, 0]], block_size=2)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "BatchToSpace",
        [sample(*_UNBLOCKS[0].inputs[::2], block_size=2)],
        lambda x, c, *, block_size: _batch_to_space(x, [block_size] * 2, c),
        [bad("InvalidArgumentError", "", _IMAGE, [[0, 0], [0, 0]], block_size=2)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "SpaceToDepth",
        [sample(_IMAGE, block_size=2)],
        _space_to_depth,
        [bad("InvalidArgumentError", "", _IMAGE, block_size=3)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "DepthToSpace",
        [sample(np.arange(32.0).reshape(1, 2, 2, 8), block_size=2)],
        _depth_to_space,
        [bad("InvalidArgumentError", "", _IMAGE, block_size=2)],
        _T,
        differentiable=True,
    ),
]
