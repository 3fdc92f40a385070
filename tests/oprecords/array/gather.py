"""Rows picked by index, and the beams of a beam search."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, Sample, bad, sample
from tests.oprecords.scatters import at

# Rows picked by index.

_M = np.arange(12.0).reshape(4, 3) - 3
_CUBE = np.arange(24.0).reshape(2, 3, 4)
_P = {"Tparams": MOVED}


def _gather(p: Any, i: Any, axis: Any = 0, *, batch_dims: int = 0) -> Any:
    if batch_dims:
        return np.stack(
            [_gather(a, b, int(axis) - 1, batch_dims=batch_dims - 1) for a, b in zip(p, i, strict=True)]
        )
    return np.take(p, i, int(axis))


_GATHERS = [sample(_M, [2, 0, 2]), sample(_M, [[1], [3]]), sample(_M, 1), sample(_M, np.zeros((0,)))]

_OF_GATHER: Final = [
    OpRecord(
        "Gather",
        _GATHERS,
        lambda p, i: p[i],
        [bad("InvalidArgumentError", "4", _M, [4])],
        _P,
        differentiable=True,
    ),
    OpRecord(
        "GatherV2",
        [
            *[Sample((*each.inputs, 0)) for each in _GATHERS],
            sample(_CUBE, [2, 0], 1),
            sample(_CUBE, [3], -1),
            sample(_CUBE, [[2, 0], [1, 1]], 1, batch_dims=1),
        ],
        _gather,
        [bad("InvalidArgumentError", "-1", _M, [-1], 0), bad("InvalidArgumentError", "2", _M, [0], 2)],
        _P,
        differentiable=True,
    ),
    OpRecord(
        "GatherNd",
        [
            sample(_CUBE, [[1, 2], [0, 0]]),
            sample(_CUBE, [[1, 2, 3]]),
            sample(_CUBE, np.zeros((0, 2))),
            sample(_M, [2]),
            sample(_CUBE, [[1, 2], [0, 0]], Tparams="float32", Tindices="int16"),
        ],
        lambda p, i: p[at(i)],
        [bad("InvalidArgumentError", "2", _CUBE, [[2, 0]])],
        _P,
        differentiable=True,
    ),
]


# The beams of a beam search, read back from their last steps.


def _gather_tree(steps: Any, parents: Any, lengths: Any, end: Any) -> Any:
    """Follow each beam back from its last step; what comes after the first end is the end."""
    times, batches, beams = steps.shape
    result = np.full_like(steps, end)
    for batch, beam in np.ndindex(batches, beams):
        at = beam
        for time in reversed(range(min(int(lengths[batch]), times))):
            result[time, batch, beam] = steps[time, batch, at]
            at = parents[time, batch, at]
        ended = np.flatnonzero(result[:, batch, beam] == end)
        if ended.size:
            result[ended[0] :, batch, beam] = end
    return result


_STEPS = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[-1, -1, -1]]])
_PARENTS = np.array([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]], [[-1, -1, -1]]])

_OF_GATHER_TREE: Final = [
    OpRecord(
        op,
        [sample(_STEPS, _PARENTS, [3], 10)],
        _gather_tree,
        [bad("InvalidArgumentError", "", _STEPS, _PARENTS[:2], [3], 10)],
    )
    for op in ("GatherTree", "Addons>GatherTree")
]


RECORDS: Final = [*_OF_GATHER, *_OF_GATHER_TREE]
