"""The beams of a beam search, read back from their last steps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


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

RECORDS: Final = [
    OpRecord(
        "GatherTree",
        [sample(_STEPS, _PARENTS, [3], 10)],
        _gather_tree,
        [bad("InvalidArgumentError", "", _STEPS, _PARENTS[:2], [3], 10)],
    ),
]
