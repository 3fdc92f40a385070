"""Candidate samplers: classes drawn to stand for the many that are not the true one.

Each op returns the drawn classes, and how often each true and each drawn class was to be expected. With
seeds, the draws are TensorFlow's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common import philox
from flowengine.kernels.common.file_access import read_lines
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.context import KernelContext
from flowengine.kernels.nn.unigrams import FixedUnigrams, LearnedUnigrams
from flowengine.kernels.random.stateful import node_generator
from flowengine.kernels.registry import kernel

HOST: Final = "draws are made until they are distinct; TensorFlow has no GPU kernel"

#: 32-bit numbers reserved for each class to draw.
_RESERVED: Final = 2048


def _check(true_classes: Array, num_true: int) -> None:
    if true_classes.ndim != 2:
        raise InvalidArgumentError(f"true_classes must be a matrix, not {shape_text(true_classes)}")
    if true_classes.shape[1] != num_true:
        raise InvalidArgumentError(
            f"true_classes must have num_true columns, expected: {true_classes.shape[1]} was: {num_true}"
        )


def _sample(
    true_classes: Array,
    node: Node,
    ctx: KernelContext,
    draw: Callable[[philox.Stream], int],
    probability: Callable[[Array], Array],
) -> Any:
    attrs = node.attrs
    wanted = attrs["num_sampled"]
    _check(true_classes, attrs["num_true"])
    if attrs["unique"] and wanted > attrs["range_max"]:
        raise InvalidArgumentError(
            f"Sampler's range is too small: {wanted} different classes of {attrs['range_max']}"
        )
    key, start = node_generator(ctx, node).reserve(-(-_RESERVED * wanted // 4))
    stream = philox.Stream(key, start)
    tries = wanted
    if attrs["unique"]:
        picked: dict[int, None] = {}
        tries = 0
        while len(picked) < wanted:
            tries += 1
            picked[draw(stream)] = None
        sampled = np.fromiter(picked, np.int64, wanted)
    else:
        sampled = np.fromiter((draw(stream) for _ in range(wanted)), np.int64, wanted)
    return (
        sampled,
        _expected(probability(true_classes), wanted, tries),
        _expected(probability(sampled), wanted, tries),
    )


def _expected(probability: Array, wanted: int, tries: int) -> Array:
    """How often classes of these probabilities were to be expected among those drawn, float32."""
    chance = probability.astype(np.float32)
    if tries == wanted:
        return chance * np.float32(wanted)
    return -np.expm1(np.float32(tries) * np.log1p(-chance))


@kernel("UniformCandidateSampler", fresh=True)
def uniform_candidate_sampler(true_classes: Array, *, node: Node, ctx: KernelContext) -> Any:
    """Classes in [0, range_max), all equally likely."""
    limit = node.attrs["range_max"]
    return _sample(
        true_classes,
        node,
        ctx,
        lambda stream: stream.below(limit),
        lambda classes: np.full(classes.shape, 1.0 / limit),
    )


@kernel("LogUniformCandidateSampler", fresh=True)
def log_uniform_candidate_sampler(true_classes: Array, *, node: Node, ctx: KernelContext) -> Any:
    """Classes in [0, range_max), class c with probability log((c + 2) / (c + 1)) / log(range_max + 1)."""
    limit = node.attrs["range_max"]
    span = math.log1p(limit)
    return _sample(
        true_classes,
        node,
        ctx,
        lambda stream: (int(math.exp(stream.double() * span)) - 1) % limit,
        lambda classes: np.log((classes + 2.0) / (classes + 1.0)) / span,
    )


@kernel("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler", fresh=True)
def learned_unigram_candidate_sampler(true_classes: Array, *, node: Node, ctx: KernelContext) -> Any:
    """Classes in [0, range_max), as often as true ones have been seen by this node, and once more."""
    limit = node.attrs["range_max"]
    unigrams = ctx.resources.lookup_or_create(
        philox.CONTAINER, node.name, LearnedUnigrams, lambda: LearnedUnigrams(limit)
    )
    _check(true_classes, node.attrs["num_true"])
    unigrams.check(true_classes)
    results = _sample(true_classes, node, ctx, unigrams.draw, unigrams.probability)
    unigrams.learn(true_classes)
    return results


@kernel("FixedUnigramCandidateSampler", fresh=True)
async def fixed_unigram_candidate_sampler(true_classes: Array, *, node: Node, ctx: KernelContext) -> Any:
    """Classes by given weights, from attributes or a file, each to the power of `distortion`."""
    attrs = node.attrs
    path, unigrams = attrs["vocab_file"].decode(), attrs["unigrams"]
    if not path and not unigrams:
        raise InvalidArgumentError("Must provide either vocab_file or unigrams.")
    if path and unigrams:
        raise InvalidArgumentError("Must only provide one of vocab_file and unigrams.")
    found = ctx.resources.find(philox.CONTAINER, node.name, FixedUnigrams)
    if found is None:
        weights = _weights(await read_lines(ctx, path)) if path else unigrams
        found = FixedUnigrams(
            weights,
            attrs["range_max"],
            distortion=attrs["distortion"],
            reserved=attrs["num_reserved_ids"],
            shards=attrs["num_shards"],
            shard=attrs["shard"],
        )
        ctx.resources.put(philox.CONTAINER, node.name, FixedUnigrams, found)
    if attrs["unique"] and attrs["num_sampled"] > found.possible:
        raise InvalidArgumentError(
            f"Sampler's range is too small: {attrs['num_sampled']} different classes, of which "
            f"{found.possible} have a weight"
        )
    return _sample(true_classes, node, ctx, found.draw, found.probability)


def _weights(lines: list[bytes]) -> list[float]:
    """Parse the numbers behind the last comma of each line."""
    weights = []
    for line in lines:
        try:
            weights.append(float(line.rpartition(b",")[2]))
        except ValueError:
            raise InvalidArgumentError(
                f"Wrong vocabulary format at line: {line.decode(errors='replace')}"
            ) from None
    return weights


@kernel("AllCandidateSampler", fresh=True)
def all_candidate_sampler(true_classes: Array, *, num_true: int, num_sampled: int) -> Any:
    """Every class once."""
    _check(true_classes, num_true)
    return (
        np.arange(num_sampled, dtype=np.int64),
        np.ones(true_classes.shape, np.float32),
        np.ones(num_sampled, np.float32),
    )


@kernel("ComputeAccidentalHits", fresh=True)
def compute_accidental_hits(true_classes: Array, sampled: Array, *, num_true: int) -> Any:
    """Find drawn classes that are true: rows of true_classes, positions drawn, and the lowest weight."""
    _check(true_classes, num_true)
    if sampled.ndim != 1:
        raise InvalidArgumentError(
            f"sampled_candidates must be a vector, which is typically an output from CandidateSampler, "
            f"not {shape_text(sampled)}"
        )
    position = {int(c): i for i, c in enumerate(sampled.tolist())}
    hits = [
        (row, position[c])
        for row, classes in enumerate(true_classes.tolist())
        for c in classes
        if c in position
    ]
    rows = np.array([h[0] for h in hits], np.int32)
    places = np.array([h[1] for h in hits], np.int64)
    return rows, places, np.full(len(hits), np.finfo(np.float32).min, np.float32)
