"""Padding at the edges, and blocks of space moved to the batch or the depth."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, Sample, bad, sample

# Tensors made larger at their edges.

_M = np.arange(12.0).reshape(3, 4) - 3
_NOTHING = np.zeros((0, 4))
_T = {"T": MOVED}


def _mirror(x: Any, paddings: Any, *, mode: bytes) -> Any:
    return np.pad(x, [tuple(p) for p in paddings], "reflect" if mode == b"REFLECT" else "symmetric")


def _mirror_grad(g: Any, paddings: Any, *, mode: bytes) -> Any:
    """Each element of the padded gradient goes back to the element of which it was a copy."""
    inner = tuple(n - int(p.sum()) for n, p in zip(g.shape, paddings, strict=True))
    source = _mirror(np.arange(int(np.prod(inner))).reshape(inner), paddings, mode=mode)
    result = np.zeros(int(np.prod(inner)), g.dtype)
    np.add.at(result, source.ravel(), g.ravel())
    return result.reshape(inner)


_PADS = [sample(_M, [[1, 2], [0, 1]]), sample(_M, [[0, 0], [0, 0]]), sample(_NOTHING, [[1, 1], [0, 0]])]
_MIRRORS = [sample(_M, [[1, 2], [0, 1]], mode=mode) for mode in ("REFLECT", "SYMMETRIC")]

_OF_PADDING: Final = [
    OpRecord(
        "Pad",
        _PADS,
        lambda x, p: np.pad(x, [tuple(i) for i in p]),
        [
            bad("InvalidArgumentError", "-1", _M, [[-1, 0], [0, 0]]),
            bad("InvalidArgumentError", "", _M, [[1, 0]]),
        ],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "PadV2",
        [Sample((*each.inputs, 9.0)) for each in _PADS],
        lambda x, p, v: np.pad(x, [tuple(i) for i in p], constant_values=v),
        [bad("InvalidArgumentError", "-1", _M, [[-1, 0], [0, 0]], 1.0)],
        _T,
        differentiable=("input",),
    ),
    OpRecord(
        "MirrorPad",
        _MIRRORS,
        _mirror,
        [bad("InvalidArgumentError", "3", _M, [[3, 0], [0, 0]], mode="REFLECT")],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "MirrorPadGrad",
        [sample(np.ones((6, 5)), *m.inputs[1:], **m.attrs) for m in _MIRRORS],
        _mirror_grad,
        dtypes={"T": ("float32", "int32", "float64")},
        partial=True,
        differentiable=True,
    ),
]


# Blocks of space moved to the batch or the depth, and back.

_T_SPACE_BATCH = {"T": MOVED}


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

_OF_SPACE_BATCH: Final = [
    OpRecord(
        "SpaceToBatchND",
        _BLOCKS,
        _space_to_batch,
        [bad("InvalidArgumentError", "3", _IMAGE, [3, 2], [[0, 0], [0, 0]])],
        _T_SPACE_BATCH,
        differentiable=True,
    ),
    OpRecord(
        "BatchToSpaceND",
        _UNBLOCKS,
        _batch_to_space,
        [bad("InvalidArgumentError", "", _IMAGE, [2, 2], [[0, 0], [0, 0]])],
        _T_SPACE_BATCH,
        differentiable=True,
    ),
    OpRecord(
        "SpaceToBatch",
        [sample(_IMAGE, [[0, 0], [2, 0]], block_size=2)],
        lambda x, p, *, block_size: _space_to_batch(x, [block_size] * 2, p),
        [bad("InvalidArgumentError", "", _IMAGE, [[1, 0], [0, 0]], block_size=2)],
        _T_SPACE_BATCH,
        differentiable=True,
    ),
    OpRecord(
        "BatchToSpace",
        [sample(*_UNBLOCKS[0].inputs[::2], block_size=2)],
        lambda x, c, *, block_size: _batch_to_space(x, [block_size] * 2, c),
        [bad("InvalidArgumentError", "", _IMAGE, [[0, 0], [0, 0]], block_size=2)],
        _T_SPACE_BATCH,
        differentiable=True,
    ),
    OpRecord(
        "SpaceToDepth",
        [sample(_IMAGE, block_size=2)],
        _space_to_depth,
        [bad("InvalidArgumentError", "", _IMAGE, block_size=3)],
        _T_SPACE_BATCH,
        differentiable=True,
    ),
    OpRecord(
        "DepthToSpace",
        [sample(np.arange(32.0).reshape(1, 2, 2, 8), block_size=2)],
        _depth_to_space,
        [bad("InvalidArgumentError", "", _IMAGE, block_size=2)],
        _T_SPACE_BATCH,
        differentiable=True,
    ),
]


RECORDS: Final = [*_OF_PADDING, *_OF_SPACE_BATCH]
