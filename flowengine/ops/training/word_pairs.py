"""Word embeddings learnt from pairs of neighbouring words."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define

define(
    "NegTrain(w_in, w_out: Ref(float), examples, labels: int32, lr: float)",
    "stateful; vocab_count: list(int); num_negative_samples: int",
    NotDifferentiable(),
)
define(
    "Skipgram() "
    "-> vocab_word: string, vocab_freq: int32, words_per_epoch: int64, current_epoch: int32, "
    "total_words_processed: int64, examples, labels: int32",
    "stateful; filename: string; batch_size: int; window_size, min_count: int = 5; subsample: float = 0.001",
    NotDifferentiable(),
)
