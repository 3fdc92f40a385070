"""Metrics of yes and no: true and false positives and negatives, precision and recall.

labels and predictions are of one shape (D_1, ..., D_r); elements other than 0 are positive. With thresholds,
predictions are from 0 to 1, positive above a threshold, and a metric has the shape (T,).

They are bool or convertible to it, weights floats that broadcast to them; values are float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.client.metrics.accumulators import (
    Metric,
    Tally,
    as_weights,
    metric,
    paired,
    quotient,
    tally,
)
from flowengine.client.weights import check_weights, spread_weights
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions.math import cast
from flowengine.graphs.functions.reductions import reduce_sum
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor

#: Added to quotients of counts, so that none is 0 / 0; TensorFlow's.
_EPSILON = 1e-7


def true_positives(labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None) -> Metric:
    """Count the positives that were predicted as positive, in float32; weighted if there are weights.

    labels, predictions (D_1, ..., D_r) of bools or numbers; the value is a scalar of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _count("true_positives", labels, predictions, weights, name)


def false_positives(labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None) -> Metric:
    """Count the negatives that were predicted as positive.

    labels, predictions (D_1, ..., D_r) of bools or numbers; the value is a scalar of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _count("false_positives", labels, predictions, weights, name)


def true_negatives(labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None) -> Metric:
    """Count the negatives that were predicted as negative.

    labels, predictions (D_1, ..., D_r) of bools or numbers; the value is a scalar of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _count("true_negatives", labels, predictions, weights, name)


def false_negatives(labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None) -> Metric:
    """Count the positives that were predicted as negative.

    labels, predictions (D_1, ..., D_r) of bools or numbers; the value is a scalar of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _count("false_negatives", labels, predictions, weights, name)


def precision(labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None) -> Metric:
    """Compute the precision: true positives / (true + false positives); 0 if there are none.

    labels, predictions (D_1, ..., D_r) of bools or numbers; the value is a scalar of float32, 0 before
    anything was counted. Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown,
    the step raises it.
    """
    return _share_beside("false_positives", labels, predictions, weights, name or "precision")


def recall(labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None) -> Metric:
    """Compute the recall: true positives / (true positives + false negatives); 0 if there are none.

    labels, predictions (D_1, ..., D_r) of bools or numbers; the value is a scalar of float32, 0 before
    anything was counted. Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown,
    the step raises it.
    """
    return _share_beside("false_negatives", labels, predictions, weights, name or "recall")


def _share_beside(other: str, labels: Any, predictions: Any, weights: Any, name: str) -> Metric:
    """True positives by those and another kind."""
    graph = graph_of(predictions, labels)
    with graph.name_scope(name):
        wanted, found = paired(graph, labels, predictions, dtypes.bool_)
        hits, misses = (_counted(kind, wanted, found, weights) for kind in ("true_positives", other))
        return metric(_share, hits, misses)


def _share(hits: Tensor, misses: Tensor, name: str) -> Tensor:
    return quotient(hits, hits.graph.ops.Add(hits, misses), name)


def _count(kind: str, labels: Any, predictions: Any, weights: Any, name: str | None) -> Metric:
    graph = graph_of(predictions, labels)
    wanted, found = paired(graph, labels, predictions, dtypes.bool_)
    return Metric(*_counted(kind, wanted, found, weights, name))


def _counted(kind: str, labels: Tensor, predictions: Tensor, weights: Any, name: str | None = None) -> Tally:
    graph = labels.graph
    with graph.name_scope(name or kind):
        matches = cast(_matches(kind, labels, predictions), dtypes.float32)
        if weights is not None:
            factors = as_weights(graph, weights, matches)
            matches = graph.ops.Mul(matches, check_weights("metrics", factors, matches))
        return tally(reduce_sum(matches), "count")


def _matches(kind: str, labels: Tensor, predictions: Tensor) -> Tensor:
    ops = labels.graph.ops
    correct, _, sign = kind.partition("_")
    predicted = predictions if sign == "positives" else ops.LogicalNot(predictions)
    actual = labels if (correct == "true") == (sign == "positives") else ops.LogicalNot(labels)
    result: Tensor = ops.LogicalAnd(actual, predicted)
    return result


# -- at thresholds -----------------------------------------------------------------------------------------


def tallies_at(
    graph: Graph,
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any,
    kinds: Sequence[str],
) -> list[Tally]:
    """The tallies (T,) of each kind of match, such as "true_positives", at each threshold."""
    ops = graph.ops
    wanted, found = paired(graph, cast(convert(graph, labels), dtypes.bool_), predictions, dtypes.float32)
    found = _from_0_to_1(found)
    actual = ops.Reshape(ops.NotEqual(wanted, 0.0), [1, -1])
    levels = graph.constant(np.asarray(thresholds, np.float32).reshape(-1, 1), name="thresholds")
    predicted = ops.Greater(ops.Reshape(found, [1, -1]), levels)
    factors = None
    if weights is not None:
        spread = spread_weights("metrics", as_weights(graph, weights, found), found)
        factors = ops.Reshape(spread, [1, -1])
    tallies = []
    for kind in kinds:
        matches = cast(_matches(kind, actual, predicted), dtypes.float32)
        if factors is not None:
            matches = ops.Mul(matches, factors)
        tallies.append(tally(ops.Sum(matches, [1]), kind))
    return tallies


def _from_0_to_1(predictions: Tensor) -> Tensor:
    graph, ops = predictions.graph, predictions.graph.ops
    inside = ops.LogicalAnd(ops.GreaterEqual(predictions, 0.0), ops.LessEqual(predictions, 1.0))
    fits = ops.All(ops.Reshape(inside, [-1]), [0])
    check = ops.Assert(
        fits, ["metrics: predictions must be from 0 to 1", predictions], T=["string", "float32"]
    )
    with graph.control_dependencies([check]):
        result: Tensor = ops.Identity(predictions)
    return result


def _at_thresholds(
    kind: str, labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any, name: str | None
) -> Metric:
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or kind):
        return Metric(*tallies_at(graph, labels, predictions, thresholds, weights, [kind])[0])


def true_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    *,
    name: str | None = None,
) -> Metric:
    """Compute `true_positives` at each of T thresholds, (T,).

    labels, predictions (D_1, ..., D_r), predictions of floats; the value is (T,) of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _at_thresholds("true_positives", labels, predictions, thresholds, weights, name)


def false_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    *,
    name: str | None = None,
) -> Metric:
    """Compute `false_positives` at each of T thresholds, (T,).

    labels, predictions (D_1, ..., D_r), predictions of floats; the value is (T,) of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _at_thresholds("false_positives", labels, predictions, thresholds, weights, name)


def true_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    *,
    name: str | None = None,
) -> Metric:
    """Compute `true_negatives` at each of T thresholds, (T,).

    labels, predictions (D_1, ..., D_r), predictions of floats; the value is (T,) of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _at_thresholds("true_negatives", labels, predictions, thresholds, weights, name)


def false_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    *,
    name: str | None = None,
) -> Metric:
    """Compute `false_negatives` at each of T thresholds, (T,).

    labels, predictions (D_1, ..., D_r), predictions of floats; the value is (T,) of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _at_thresholds("false_negatives", labels, predictions, thresholds, weights, name)


def precision_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    *,
    name: str | None = None,
) -> Metric:
    """Compute `precision` at each of T thresholds, (T,).

    labels, predictions (D_1, ..., D_r), predictions of floats; the value is (T,) of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _share_at("precision", "false_positives", labels, predictions, thresholds, weights, name)


def recall_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    *,
    name: str | None = None,
) -> Metric:
    """Compute `recall` at each of T thresholds, (T,).

    labels, predictions (D_1, ..., D_r), predictions of floats; the value is (T,) of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    return _share_at("recall", "false_negatives", labels, predictions, thresholds, weights, name)


def _share_at(
    what: str,
    misses: str,
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any,
    name: str | None,
) -> Metric:
    if not len(thresholds):
        raise InvalidArgumentError(
            f"metrics.{what}_at_thresholds: thresholds is empty: give numbers such as [0.5]"
        )
    graph = graph_of(predictions, labels)

    def share(hits: Tensor, others: Tensor, label: str) -> Tensor:
        ops = graph.ops
        result: Tensor = ops.RealDiv(hits, ops.Add(ops.Add(hits, others), _EPSILON), name=label)
        return result

    with graph.name_scope(name or f"{what}_at_thresholds"):
        return metric(
            share, *tallies_at(graph, labels, predictions, thresholds, weights, ["true_positives", misses])
        )
