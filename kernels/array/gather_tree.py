"""GatherTree: the beams of a beam search, read back from their last steps."""

from __future__ import annotations

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel


@kernel("GatherTree", "Addons>GatherTree", fresh=True)
def gather_tree(step_ids: Array, parent_ids: Array, lengths: Array, end_token: Value) -> Array:
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
    if np.ndim(end_token):
        raise InvalidArgumentError(f"end_token must be a scalar, but has shape {brackets(end_token.shape)}")
    steps, batch, beams = step_ids.shape
    if lengths.shape != (batch,):
        raise InvalidArgumentError(
            f"max_sequence_lengths must have one element a batch entry ({batch}), "
            f"but has shape {brackets(lengths.shape)}"
        )
    out = np.full(step_ids.shape, end_token, step_ids.dtype)
    last = np.minimum(lengths, steps) - 1
    rows = np.arange(batch)[:, None]
    parent = np.broadcast_to(np.arange(beams), (batch, beams)).copy()
    for level in range(int(last.max(initial=-1)), -1, -1):
        alive = (last >= level)[:, None]
        wrong = alive & ((parent < 0) | (parent >= beams))
        if wrong.any():
            entry, beam = np.argwhere(wrong)[0].tolist()
            raise InvalidArgumentError(
                f"Saw invalid parent id {parent[entry, beam]} at (batch, time, beam) == "
                f"({entry}, {level}, {beam})"
            )
        safe = np.where(alive, parent, 0)
        out[level] = np.where(alive, step_ids[level][rows, safe], end_token)
        parent = np.where(alive, parent_ids[level][rows, safe], parent)
    # A trajectory that ends and goes on is cut at its end token.
    ended = np.logical_or.accumulate(out == end_token, axis=0)
    out[ended] = end_token
    return out
