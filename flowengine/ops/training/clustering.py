"""Starts of k-means clustering, and pairs of words for embeddings."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dimension_value, ranked, scalars, smaller

# Starts of k-means clustering, and the nearest centres.

define(
    "KMC2ChainInitialization(distances: float, seed: int64) -> index: int64",
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "KmeansPlusPlusInitialization(points: float, num_to_sample, seed, num_retries_per_sample: int64) "
    "-> samples: float",
    NotDifferentiable(),
)
def initial_centres(c: ShapeContext) -> Shapes:
    return [TensorShape([dimension_value(c, 1), ranked(c, 0, 2)[1]])]


@define(
    "NearestNeighbors(points, centers: float, k: int64) "
    "-> nearest_center_indices: int64, nearest_center_distances: float"
)
def nearest(c: ShapeContext) -> Shapes:
    """points (n, d), centers (m, d) -> the k nearest of each, fewer if there are fewer centres"""
    return [TensorShape([ranked(c, 0, 2)[0], smaller(ranked(c, 1, 2)[0], dimension_value(c, 2))])] * 2


# Word embeddings learnt from pairs of neighbouring words.

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
