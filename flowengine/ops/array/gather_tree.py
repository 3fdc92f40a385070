"""The beams of a beam search, read back from their last steps."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merge, ranked


@define(
    "GatherTree(step_ids, parent_ids: T, max_sequence_lengths: int32, end_token: T) -> beams: T",
    "T: {int32}",
    NotDifferentiable(),
)
def gather_tree(c: ShapeContext) -> Shapes:
    """steps and parents (time, batch, beams) -> beams of that shape"""
    ranked(c, 0, 3)
    ranked(c, 1, 3)
    return [merge(c, (0, 1))]
