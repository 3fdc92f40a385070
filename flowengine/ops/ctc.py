"""Connectionist temporal classification."""

from __future__ import annotations

from flowengine.ops.registry import define

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
)
define(
    "CTCGreedyDecoder",
    inputs=["inputs: T", "sequence_length: int32"],
    outputs=["decoded_indices: int64", "decoded_values: int64", "decoded_shape: int64", "log_probability: T"],
    attrs=["merge_repeated: bool = false", "T: {float, double} = float"],
)
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
)
