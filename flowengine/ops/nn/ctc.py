"""Connectionist temporal classification: its loss and its decoders."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, merge_dims, ranked, vector

# Connectionist temporal classification: its loss.


@define(
    "CTCLoss(inputs: T, labels_indices: int64, labels_values, sequence_length: int32) -> loss, gradient: T",
    "preprocess_collapse_repeated: bool = false; ctc_merge_repeated: bool = true",
    "ignore_longer_outputs_than_inputs: bool = false; T: {float, double} = float",
)
def ctc_loss(c: ShapeContext) -> Shapes:
    """inputs (time, batch, classes) -> loss (batch), gradient like the inputs"""
    shape = ranked(c, 0, 3)
    return [vector(merge_dims(shape[1], ranked(c, 3, 1)[0], "The batch and the sequence lengths")), shape]


# Connectionist temporal classification: decoders.


@define(
    "CTCGreedyDecoder(inputs: T, sequence_length: int32) "
    "-> decoded_indices, decoded_values, decoded_shape: int64, log_probability: T",
    "merge_repeated: bool = false; T: {float, double} = float; blank_index: int = -1",
    Newer(("blank_index",)),
    NotDifferentiable(),
)
def greedy_decoder(c: ShapeContext) -> Shapes:
    """One sparse (batch, time) tensor of labels, and a column of log probabilities"""
    batch = merge_dims(ranked(c, 0, 3)[1], ranked(c, 1, 1)[0], "The batch and the sequence lengths")
    return [TensorShape([None, 2]), VECTOR, vector(2), TensorShape([batch, 1])]


@define(
    "CTCBeamSearchDecoder(inputs: T, sequence_length: int32) "
    "-> decoded_indices, decoded_values, decoded_shape: top_paths * int64, log_probability: T",
    "beam_width, top_paths: int >= 1; merge_repeated: bool = true; T: {float, double} = float",
    NotDifferentiable(),
)
def beam_decoder(c: ShapeContext) -> Shapes:
    paths: int = c.attrs["top_paths"]
    batch = merge_dims(ranked(c, 0, 3)[1], ranked(c, 1, 1)[0], "The batch and the sequence lengths")
    sparse = [TensorShape([None, 2])] * paths + [VECTOR] * paths + [vector(2)] * paths
    return [*sparse, TensorShape([batch, paths])]
