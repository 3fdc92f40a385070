"""Metrics that are means of something by example: errors, hits, any values.

values, labels and predictions are numbers of one shape (D_1, ..., D_r), weights floats that broadcast to it;
metrics are () float32, float64 for values of that, unless a function says otherwise.
"""

from __future__ import annotations

from typing import Any

from flowengine.client.arguments import computing_type
from flowengine.client.metrics.accumulators import (
    Metric,
    as_weights,
    metric,
    paired,
    quotient,
    tally,
    weighted_mean,
)
from flowengine.client.weights import spread_weights
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions.math import cast
from flowengine.graphs.tensor import Tensor


def mean(values: Any, weights: Any = None, *, name: str | None = None) -> Metric:
    """Return the mean of all values (D_1, ..., D_r) of all batches.

    Of numbers; the value is a scalar of float32, float64 where that is computed in, 0 before any batch.
    Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(values, weights)
    with graph.name_scope(name or "mean"):
        return weighted_mean(convert(graph, values), weights)


def mean_tensor(values: Any, weights: Any = None, *, name: str | None = None) -> Metric:
    """Return the mean over batches of each element: (D_1, ..., D_r), which must be known -> the same shape.

    Of numbers; the value is of float32, float64 where that is computed in. Raises InvalidArgumentError if
    shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(values, weights)
    with graph.name_scope(name or "mean"):
        tensor = convert(graph, values)
        amounts = cast(tensor, computing_type(tensor))
        count = graph.ops.OnesLike(amounts)
        if weights is not None:
            factors = as_weights(graph, weights, amounts)
            count = spread_weights("metrics.mean_tensor", factors, amounts)
            amounts = graph.ops.Mul(amounts, factors)
        return metric(quotient, tally(amounts, "total_tensor"), tally(count, "count_tensor"))


def accuracy(labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None) -> Metric:
    """Compute how often predictions equal labels; both (D_1, ..., D_r), cast to the type of predictions.

    Of numbers; the value is a scalar of float32, float64 where that is computed in, 0 before any batch.
    Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "accuracy"):
        wanted, found = paired(graph, labels, predictions)
        return weighted_mean(graph.ops.Cast(graph.ops.Equal(found, wanted), DstT="float32"), weights)


def percentage_below(
    values: Any, threshold: float, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Compute the share of the values (D_1, ..., D_r) below the threshold.

    Of numbers; the value is a scalar of float32, float64 where that is computed in, 0 before any batch.
    Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(values)
    with graph.name_scope(name or "percentage_below_threshold"):
        below = graph.ops.Less(convert(graph, values), threshold)
        return weighted_mean(graph.ops.Cast(below, DstT="float32"), weights)


def mean_absolute_error(
    labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Return the mean of `|predictions - labels|`; both (D_1, ..., D_r).

    Of numbers; the value is a scalar of float32, float64 where that is computed in, 0 before any batch.
    Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "mean_absolute_error"):
        wanted, found = paired(graph, labels, predictions)
        return weighted_mean(graph.ops.Abs(graph.ops.Sub(found, wanted)), weights)


def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Return the mean of `(predictions - labels)**2`; both (D_1, ..., D_r).

    Of numbers; the value is a scalar of float32, float64 where that is computed in, 0 before any batch.
    Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "mean_squared_error"):
        wanted, found = paired(graph, labels, predictions)
        return weighted_mean(graph.ops.SquaredDifference(found, wanted), weights)


def root_mean_squared_error(
    labels: Any, predictions: Any, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Return the root of `mean_squared_error`.

    Of numbers; the value is a scalar of float32, float64 where that is computed in, 0 before any batch.
    Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "root_mean_squared_error"):
        squared = mean_squared_error(labels, predictions, weights)
        return Metric(
            graph.ops.Sqrt(squared.value, name="value"), graph.ops.Sqrt(squared.update, name="update_op")
        )


def mean_relative_error(
    labels: Any, predictions: Any, normalizer: Any, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Return the mean of `|labels - predictions| / normalizer`, 0 where the normalizer is 0.

    All (D_1, ..., D_r).

    Of numbers; the value is a scalar of float32, float64 where that is computed in, 0 before any batch.
    Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "mean_relative_error"):
        wanted, found = paired(graph, labels, predictions)
        divisor, found = paired(graph, normalizer, found)
        error = graph.ops.Abs(graph.ops.Sub(wanted, found))
        return weighted_mean(quotient(error, divisor, "relative"), weights)


def mean_cosine_distance(
    labels: Any, predictions: Any, axis: int, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Compute 1 - the mean of `sum(labels * predictions)` along an axis, for vectors of length 1.

    labels, predictions   (D_1, ..., D_r)
    weights               scalar or with dimensions of 1 or D_i, that of the axis 1

    Of numbers; the value is a scalar of float32, float64 where that is computed in, 0 before any batch.
    Raises InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "mean_cosine_distance"):
        wanted, found = paired(graph, labels, predictions)
        alike = graph.ops.Sum(graph.ops.Mul(found, wanted), [axis], keep_dims=True)
        return _one_less(weighted_mean(alike, weights))


def _one_less(of: Metric) -> Metric:
    def rest(tensor: Tensor, name: str) -> Tensor:
        result: Tensor = tensor.graph.ops.Sub(1.0, tensor, name=name)
        return result

    return Metric(rest(of.value, "mean_distance"), rest(of.update, "update_op"))
