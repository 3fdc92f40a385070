"""Samplers of candidate classes for sampled losses."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked, vector, vectors


def sampled(c: ShapeContext) -> Sequence[TensorShape]:
    """Sampled classes, and the expected count of every true and every sampled one."""
    rows = ranked(c, 0, 2)[0]
    count: int = c.attrs["num_sampled"]
    return [vector(count), TensorShape([rows, c.attrs["num_true"]]), vector(count)]


define(
    "UniformCandidateSampler",
    inputs=["true_classes: int64"],
    outputs=["sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"],
    attrs=[
        "num_true: int >= 1",
        "num_sampled: int >= 1",
        "unique: bool",
        "range_max: int >= 1",
        "seed: int = 0",
        "seed2: int = 0",
    ],
    is_stateful=True,
    shape=sampled,
)
define(
    "LogUniformCandidateSampler",
    inputs=["true_classes: int64"],
    outputs=["sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"],
    attrs=[
        "num_true: int >= 1",
        "num_sampled: int >= 1",
        "unique: bool",
        "range_max: int >= 1",
        "seed: int = 0",
        "seed2: int = 0",
    ],
    is_stateful=True,
    shape=sampled,
)
define(
    "LearnedUnigramCandidateSampler",
    inputs=["true_classes: int64"],
    outputs=["sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"],
    attrs=[
        "num_true: int >= 1",
        "num_sampled: int >= 1",
        "unique: bool",
        "range_max: int >= 1",
        "seed: int = 0",
        "seed2: int = 0",
    ],
    is_stateful=True,
    shape=sampled,
)
define(
    "ThreadUnsafeUnigramCandidateSampler",
    inputs=["true_classes: int64"],
    outputs=["sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"],
    attrs=[
        "num_true: int >= 1",
        "num_sampled: int >= 1",
        "unique: bool",
        "range_max: int >= 1",
        "seed: int = 0",
        "seed2: int = 0",
    ],
    is_stateful=True,
    shape=sampled,
)
define(
    "FixedUnigramCandidateSampler",
    inputs=["true_classes: int64"],
    outputs=["sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"],
    attrs=[
        "num_true: int >= 1",
        "num_sampled: int >= 1",
        "unique: bool",
        "range_max: int >= 1",
        'vocab_file: string = ""',
        "distortion: float = 1.0",
        "num_reserved_ids: int = 0",
        "num_shards: int >= 1 = 1",
        "shard: int >= 0 = 0",
        "unigrams: list(float) = []",
        "seed: int = 0",
        "seed2: int = 0",
    ],
    is_stateful=True,
    shape=sampled,
)
define(
    "AllCandidateSampler",
    inputs=["true_classes: int64"],
    outputs=["sampled_candidates: int64", "true_expected_count: float", "sampled_expected_count: float"],
    attrs=["num_true: int >= 1", "num_sampled: int >= 1", "unique: bool", "seed: int = 0", "seed2: int = 0"],
    is_stateful=True,
    shape=sampled,
)
define(
    "ComputeAccidentalHits",
    inputs=["true_classes: int64", "sampled_candidates: int64"],
    outputs=["indices: int32", "ids: int64", "weights: float"],
    attrs=["num_true: int", "seed: int = 0", "seed2: int = 0"],
    shape=vectors,
)
