"""Connectionist temporal classification: its loss."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merge_dims, ranked, vector


@define(
    "CTCLoss(inputs: T, labels_indices: int64, labels_values, sequence_length: int32) -> loss, gradient: T",
    "preprocess_collapse_repeated: bool = false; ctc_merge_repeated: bool = true",
    "ignore_longer_outputs_than_inputs: bool = false; T: {float, double} = float",
)
def ctc_loss(c: ShapeContext) -> Shapes:
    """inputs (time, batch, classes) -> loss (batch), gradient like the inputs"""
    shape = ranked(c, 0, 3)
    return [vector(merge_dims(shape[1], ranked(c, 3, 1)[0], "The batch and the sequence lengths")), shape]
