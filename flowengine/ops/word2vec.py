"""Sampling and training of skip-gram models."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "NegTrain",
    inputs=["w_in: Ref(float)", "w_out: Ref(float)", "examples: int32", "labels: int32", "lr: float"],
    attrs=["vocab_count: list(int)", "num_negative_samples: int"],
    is_stateful=True,
)
define(
    "Skipgram",
    outputs=[
        "vocab_word: string",
        "vocab_freq: int32",
        "words_per_epoch: int64",
        "current_epoch: int32",
        "total_words_processed: int64",
        "examples: int32",
        "labels: int32",
    ],
    attrs=[
        "filename: string",
        "batch_size: int",
        "window_size: int = 5",
        "min_count: int = 5",
        "subsample: float = 0.001",
    ],
    is_stateful=True,
)
