"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, merge_dims, ranked, vector


def ctc_loss(c: ShapeContext) -> Sequence[TensorShape]:
    """inputs (time, batch, classes) -> loss (batch), gradient like the inputs"""
    shape = ranked(c, 0, 3)
    return [vector(merge_dims(shape[1], ranked(c, 3, 1)[0], "The batch and the sequence lengths")), shape]


define(
    "CTCLoss",
    inputs=["inputs: T", "labels_indices: int64", "labels_values: int32", "sequence_length: int32"],
    outputs=["loss: T", "gradient: T"],
    attrs=[
        "preprocess_collapse_repeated: bool = false",
        "ctc_merge_repeated: bool = true",
        "ignore_longer_outputs_than_inputs: bool = false",
        "T: {float, double} = float",
    ],
    shape=ctc_loss,
)


def greedy_decoder(c: ShapeContext) -> Sequence[TensorShape]:
    """One sparse (batch, time) tensor of labels, and a column of log probabilities"""
    batch = merge_dims(ranked(c, 0, 3)[1], ranked(c, 1, 1)[0], "The batch and the sequence lengths")
    return [TensorShape([None, 2]), VECTOR, vector(2), TensorShape([batch, 1])]


define(
    "CTCGreedyDecoder",
    inputs=["inputs: T", "sequence_length: int32"],
    outputs=["decoded_indices: int64", "decoded_values: int64", "decoded_shape: int64", "log_probability: T"],
    attrs=["merge_repeated: bool = false", "T: {float, double} = float"],
    shape=greedy_decoder,
)


def beam_decoder(c: ShapeContext) -> Sequence[TensorShape]:
    paths: int = c.attrs["top_paths"]
    batch = merge_dims(ranked(c, 0, 3)[1], ranked(c, 1, 1)[0], "The batch and the sequence lengths")
    sparse = [TensorShape([None, 2])] * paths + [VECTOR] * paths + [vector(2)] * paths
    return [*sparse, TensorShape([batch, paths])]


define(
    "CTCBeamSearchDecoder",
    inputs=["inputs: T", "sequence_length: int32"],
    outputs=[
        "decoded_indices: top_paths * int64",
        "decoded_values: top_paths * int64",
        "decoded_shape: top_paths * int64",
        "log_probability: T",
    ],
    attrs=[
        "beam_width: int >= 1",
        "top_paths: int >= 1",
        "merge_repeated: bool = true",
        "T: {float, double} = float",
    ],
    shape=beam_decoder,
)
