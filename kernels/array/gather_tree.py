"""GatherTree: the beams of a beam search, read back from their last steps."""

from __future__ import annotations

import functools
from typing import Any

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.indices import first_true
from flowengine.kernels.registry import kernel


def _no_beam(wrong: Array, parent: Array, level: int) -> InvalidArgumentError:
    entry, beam = first_true(wrong)
    return InvalidArgumentError(
        f"Saw invalid parent id {parent[entry, beam]} at (batch, time, beam) == ({entry}, {level}, {beam})"
    )


@kernel("GatherTree", "Addons>GatherTree", fresh=True, host=("end_token",))
def gather_tree(xp: Any, step_ids: Array, parent_ids: Array, lengths: Array, end_token: Value) -> Any:
    """Follow each beam from its last step to its first.

    step_ids, parent_ids   (T, B, W) int32: the token, and the beam it continues, per time, batch, beam
    lengths                (B,) int32: steps of each batch entry
    end_token              int32: fills what lies beyond, and everything after its first occurrence
    returns                (T, B, W) int32

    Raises InvalidArgumentError where the shapes disagree or a parent is not a beam.
    """
    if step_ids.ndim != 3:
        raise InvalidArgumentError(f"step_ids must be a 3-tensor, but has shape {brackets(step_ids.shape)}")
    if parent_ids.shape != step_ids.shape:
        raise InvalidArgumentError(
            f"step_ids {brackets(step_ids.shape)} and parent_ids {brackets(parent_ids.shape)} "
            "must have one shape"
        )
    if getattr(end_token, "ndim", 0):
        raise InvalidArgumentError(f"end_token must be a scalar, but has shape {brackets(end_token.shape)}")
    steps, batch, beams = step_ids.shape
    if lengths.shape != (batch,):
        raise InvalidArgumentError(
            f"max_sequence_lengths must have one element a batch entry ({batch}), "
            f"but has shape {brackets(lengths.shape)}"
        )
    end_token = end_token[()]
    out = xp.full(step_ids.shape, end_token, step_ids.dtype)
    last = xp.minimum(lengths, steps) - 1
    rows = xp.arange(batch)[:, None]
    parent = xp.broadcast_to(xp.arange(beams), (batch, beams)).copy()
    for level in range(steps - 1, -1, -1):
        # Where an entry has not begun yet, each beam is still its own parent.
        wrong = (parent < 0) | (parent >= beams)
        refuse(wrong.any(), functools.partial(_no_beam, wrong, parent, level))
        alive = (last >= level)[:, None]
        out[level] = xp.where(alive, step_ids[level][rows, parent], end_token)
        parent = xp.where(alive, parent_ids[level][rows, parent], parent)
    # A trajectory that ends and goes on is cut at its end token.
    ended = xp.cumsum(out == end_token, axis=0) > 0
    out[ended] = end_token
    return out
