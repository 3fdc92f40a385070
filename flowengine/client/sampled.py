"""Losses over many classes of which only some are looked at in a step, and the samplers of these.

The weights of the classes are a table as `embedding.lookup` takes it: whole or in parts, read by row, so that
their gradients are IndexedSlices. Sources: Jean et al. 2015, section 3 (sampled softmax); Gutmann and
Hyvarinen 2012 (noise-contrastive estimation).

Classes are int64: `labels` or `true_classes` (N, T) for the true ones, `num_true` = T, and (S,) for those
that are drawn, `num_sampled` = S, each once if `unique`, below `range_max`; expected counts are float32 of
the same shapes. Inputs (N, D), weights (classes, D), biases (classes,) and losses (N,) are floats of one
type. Raises InvalidArgumentError for other shapes and types.

`sampled_values` are candidates that were drawn already, `remove_accidental_hits` leaves out drawn classes
that are true, `partition_strategy` is that of `embedding.lookup`, `seed` of random numbers; `vocab_file`,
`unigrams`, `distortion`, `num_reserved_ids`, `num_shards` and `shard` describe a distribution.

>>> sampled, graph = fe.sampled, fe.Graph()
>>> weights, biases = fe.ones([100, 4], graph=graph), fe.zeros([100], graph=graph)
>>> labels, inputs = graph.constant([[3], [7]], "int64"), fe.ones([2, 4], graph=graph)
>>> sampled.softmax_loss(weights, biases, labels, inputs, num_sampled=8, num_classes=100).shape
TensorShape([2])
>>> sampled.nce_loss(weights, biases, labels, inputs, num_sampled=8, num_classes=100).shape
TensorShape([2])
>>> drawn = [sampled.uniform_sampler(labels, 1, 8, True, 100)]
>>> drawn += [sampled.log_uniform_sampler(labels, 1, 8, True, 100)]
>>> drawn += [sampled.learned_unigram_sampler(labels, 1, 8, True, 100)]
>>> drawn += [sampled.all_candidates(labels, 1, 8, True)]
>>> drawn += [sampled.fixed_unigram_sampler(labels, 1, 2, True, 3, unigrams=[1.0, 2.0, 3.0])]
>>> [each.sampled.shape.as_list() for each in drawn]
[[8], [8], [8], [8], [2]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flowengine.client import embedding
from flowengine.client.arguments import of_type
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.missing import public_module
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions import array
from flowengine.graphs.functions.math import cast
from flowengine.graphs.functions.normalization import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
)
from flowengine.graphs.graph import Graph
from flowengine.graphs.seeds import seeds_for
from flowengine.graphs.tensor import Tensor


class Candidates(NamedTuple):
    """Classes that were drawn for a step.

    sampled                 (S,) int64
    true_expected_count     (N, T) float32: how often each true class is expected among them
    sampled_expected_count  (S,) float32: the same of the drawn classes

    >>> labels = fe.Graph().constant([[3], [7]], "int64")
    >>> drawn = fe.sampled.uniform_sampler(labels, 1, 8, True, 100)
    >>> drawn.sampled.shape, drawn.true_expected_count.shape
    (TensorShape([8]), TensorShape([2, 1]))
    """

    sampled: Tensor
    true_expected_count: Tensor
    sampled_expected_count: Tensor


def log_uniform_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw class k with probability `(log(k+2) - log(k+1)) / log(range_max+1)`: classes by falling frequency.

    true_classes   (N, num_true) int64
    num_sampled    S; with `unique` no class is drawn twice

    Classes (N, num_true) and (S,) are int64, expected counts float32. Raises InvalidArgumentError for
    invalid numbers; the step raises it if `unique` is set and there are too few classes.
    """
    return _drawn(
        "LogUniformCandidateSampler",
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
        name,
        range_max=range_max,
    )


def uniform_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw each class of 0 ... range_max-1 with equal probability. Arguments as `log_uniform_sampler`.

    Classes (N, num_true) and (S,) are int64, expected counts float32. Raises InvalidArgumentError for
    invalid numbers; the step raises it if `unique` is set and there are too few classes.
    """
    return _drawn(
        "UniformCandidateSampler",
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
        name,
        range_max=range_max,
    )


def learned_unigram_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw classes as often as they were among the true ones so far. Arguments as `log_uniform_sampler`.

    Classes (N, num_true) and (S,) are int64, expected counts float32. Raises InvalidArgumentError for
    invalid numbers; the step raises it if `unique` is set and there are too few classes.
    """
    return _drawn(
        "LearnedUnigramCandidateSampler",
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
        name,
        range_max=range_max,
    )


def fixed_unigram_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    *,
    vocab_file: str = "",
    unigrams: Sequence[float] = (),
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw class k with a probability proportional to `unigrams[k]**distortion`.

    unigrams           a weight for each class; or vocab_file, whose lines end in `,weight`
    num_reserved_ids   that many first classes are never drawn
    num_shards, shard  of each num_shards classes in a row only the one numbered shard is drawn

    Otherwise as `log_uniform_sampler`.

    Classes (N, num_true) and (S,) are int64, expected counts float32. Raises InvalidArgumentError for
    invalid numbers; the step raises it if `unique` is set and there are too few classes.
    """
    return _drawn(
        "FixedUnigramCandidateSampler",
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
        name,
        range_max=range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_shards=num_shards,
        num_reserved_ids=num_reserved_ids,
        shard=shard,
        unigrams=list(unigrams),
    )


def all_candidates(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Return all classes 0 ... num_sampled-1: what tests of the losses sample.

    Classes (N, num_true) and (S,) are int64, expected counts float32. Raises InvalidArgumentError for
    invalid numbers; the step raises it if `unique` is set and there are too few classes.
    """
    return _drawn("AllCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name)


def _drawn(
    op: str,
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None,
    name: str | None,
    **attrs: Any,
) -> Candidates:
    graph = graph_of(true_classes)
    first, second = seeds_for(graph, seed)
    classes = of_type(graph, true_classes, dtypes.int64)
    made = getattr(graph.ops, op)(
        classes,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        seed=first,
        seed2=second,
        name=name,
        **attrs,
    )
    return Candidates(made.sampled_candidates, made.true_expected_count, made.sampled_expected_count)


def softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    *,
    num_true: int = 1,
    sampled_values: Candidates | None = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Compute the softmax cross entropy over the true and some drawn classes; for training only.

    weights          (C, D), or parts of it
    biases           (C,)
    labels           (N, num_true) int64, each of probability 1/num_true
    inputs           (N, D)
    sampled_values   the result of a sampler; by default that of `log_uniform_sampler`
    returns          (N,) of the type of inputs

    Weights, biases and inputs of one type of floats. Raises InvalidArgumentError where `num_true` or
    `num_sampled` is below 1, or shapes do not fit. Jean and others 2015, section 3.
    """
    graph = graph_of(inputs, labels)
    with graph.name_scope(name or "sampled_softmax_loss"):
        logits, targets = _sampled_logits(
            graph,
            weights,
            biases,
            labels,
            inputs,
            num_sampled,
            num_classes,
            num_true,
            sampled_values,
            remove_accidental_hits,
            partition_strategy,
            seed,
        )
        return softmax_cross_entropy_with_logits(graph.ops.StopGradient(targets), logits)


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    *,
    num_true: int = 1,
    sampled_values: Candidates | None = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Compute the noise-contrastive loss: logistic regression of true from drawn classes; for training.

    Arguments as `softmax_loss`; returns (N,), the sum over the classes looked at.

    Types and errors as `softmax_loss`. Gutmann, Hyvarinen 2012.
    """
    graph = graph_of(inputs, labels)
    with graph.name_scope(name or "nce_loss"):
        logits, targets = _sampled_logits(
            graph,
            weights,
            biases,
            labels,
            inputs,
            num_sampled,
            num_classes,
            num_true,
            sampled_values,
            remove_accidental_hits,
            partition_strategy,
            seed,
        )
        losses = sigmoid_cross_entropy_with_logits(targets, logits)
        result: Tensor = graph.ops.Sum(losses, [1])
    return result


def _sampled_logits(
    graph: Graph,
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    drawn: Candidates | None,
    remove_hits: bool,
    strategy: str | None,
    seed: int | None,
) -> tuple[Tensor, Tensor]:
    """Logits of the true and the drawn classes, (N, num_true + S) each, and what they should be."""
    if num_true < 1 or num_sampled < 1:
        raise InvalidArgumentError(
            f"sampled: num_true ({num_true}) and num_sampled ({num_sampled}) are at least 1"
        )
    ops = graph.ops
    activations = convert(graph, inputs)
    dtype = activations.dtype.base
    classes = of_type(graph, labels, dtypes.int64)
    if drawn is None:
        drawn = log_uniform_sampler(classes, num_true, num_sampled, True, num_classes, seed=seed)
    sampled, expected_true, expected_sampled = (ops.StopGradient(each) for each in drawn)
    sampled = cast(sampled, dtypes.int64)
    flat = ops.Reshape(classes, [-1])
    # True and drawn classes are looked up together: one gather a part, one gradient.
    ids = ops.ConcatV2([flat, sampled], 0)
    rows = embedding.lookup(weights, ids, partition_strategy=strategy)
    offsets = embedding.lookup(biases, ids, partition_strategy=strategy)
    size = array.shape(flat)
    width = ops.StridedSlice(array.shape(rows), [1], [2], [1])
    true_rows = ops.Slice(rows, [0, 0], ops.ConcatV2([size, [-1]], 0))
    drawn_rows = ops.Slice(rows, ops.ConcatV2([size, [0]], 0), [-1, -1])
    true_offsets, drawn_offsets = ops.Slice(offsets, [0], size), ops.Slice(offsets, size, [-1])
    cube = ops.Reshape(true_rows, ops.ConcatV2([[-1, num_true], width], 0))
    true_logits = ops.Sum(ops.Mul(ops.ExpandDims(activations, 1), cube), [2])
    true_logits = ops.Add(true_logits, ops.Reshape(true_offsets, [-1, num_true]))
    drawn_logits = ops.Add(ops.MatMul(activations, drawn_rows, transpose_b=True), drawn_offsets)
    if remove_hits:
        drawn_logits = _without_hits(graph, classes, sampled, drawn_logits, num_true)
    # Subtract the log of the expected count, because frequent classes are drawn more often.
    true_logits = ops.Sub(true_logits, ops.Log(cast(expected_true, dtype)))
    drawn_logits = ops.Sub(drawn_logits, ops.Log(cast(expected_sampled, dtype)))
    logits = ops.ConcatV2([true_logits, drawn_logits], 1)
    share = ops.RealDiv(array.ones_like(true_logits), float(num_true))
    return logits, ops.ConcatV2([share, array.zeros_like(drawn_logits)], 1)


def _without_hits(graph: Graph, classes: Tensor, sampled: Tensor, logits: Tensor, num_true: int) -> Tensor:
    """Logits of drawn classes that are true ones made so low that they count for nothing."""
    ops = graph.ops
    hits = ops.ComputeAccidentalHits(classes, sampled, num_true=num_true)
    rows = ops.Reshape(hits.indices, [-1, 1])
    columns = ops.Reshape(ops.Cast(hits.ids, DstT=dtypes.int32), [-1, 1])
    places = ops.ConcatV2([rows, columns], 1)
    # Set, not summed: a class that is true twice is hit twice, and twice the lowest number is no number.
    low = ops.SparseToDense(
        places, array.shape(logits), cast(hits.weights, logits.dtype.base), 0.0, validate_indices=False
    )
    result: Tensor = ops.Add(logits, low)
    return result


__all__ = [
    "Candidates",
    "all_candidates",
    "fixed_unigram_sampler",
    "learned_unigram_sampler",
    "log_uniform_sampler",
    "nce_loss",
    "softmax_loss",
    "uniform_sampler",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
