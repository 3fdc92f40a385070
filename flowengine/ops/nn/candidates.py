"""Samples of classes that stand for the many that are not the true one."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import ReadsFiles
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked, vector, vectors

#: How many classes are drawn, and from how many.
SAMPLER: Final = "num_true, num_sampled: int >= 1; unique: bool; range_max: int >= 1; seed, seed2: int = 0"


@define(
    "UniformCandidateSampler, LogUniformCandidateSampler, LearnedUnigramCandidateSampler, "
    "ThreadUnsafeUnigramCandidateSampler(true_classes: int64) "
    "-> sampled_candidates: int64, true_expected_count, sampled_expected_count: float",
    "stateful",
    SAMPLER,
    NotDifferentiable(),
)
@define(
    "FixedUnigramCandidateSampler(true_classes: int64) "
    "-> sampled_candidates: int64, true_expected_count, sampled_expected_count: float",
    "stateful; num_true, num_sampled: int >= 1; unique: bool; range_max: int >= 1",
    "vocab_file: string = ''; distortion: float = 1.0; num_reserved_ids: int = 0",
    "num_shards: int >= 1 = 1; shard: int >= 0 = 0; unigrams: list(float) = []; seed, seed2: int = 0",
    ReadsFiles("vocab_file"),
    NotDifferentiable(),
)
@define(
    "AllCandidateSampler(true_classes: int64) "
    "-> sampled_candidates: int64, true_expected_count, sampled_expected_count: float",
    "stateful; num_true, num_sampled: int >= 1; unique: bool; seed, seed2: int = 0",
    NotDifferentiable(),
)
def sampled(c: ShapeContext) -> Shapes:
    """Sampled classes, and the expected count of every true and every sampled one."""
    rows = ranked(c, 0, 2)[0]
    count: int = c.attrs["num_sampled"]
    return [vector(count), TensorShape([rows, c.attrs["num_true"]]), vector(count)]


define(
    "ComputeAccidentalHits(true_classes, sampled_candidates: int64) "
    "-> indices: int32, ids: int64, weights: float",
    "num_true: int; seed, seed2: int = 0",
    NotDifferentiable(),
    shape=vectors,
)
