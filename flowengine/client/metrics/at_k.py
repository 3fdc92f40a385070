"""Metrics of the k classes that are predicted first: precision, recall and average precision.

labels        (D_1, ..., D_r, L) int64, the classes that are right; or (D_1, ..., D_r), one each. Equal ones
              count once; those outside of the classes are never found
predictions   (D_1, ..., D_r, C), a number for each class; or, of `..._at_top_k`, (D_1, ..., D_r, k) the
              classes themselves, all different
weights       scalar, or (d_1, ..., d_r) with each d_i 1 or D_i

Sums are kept in float64, as TensorFlow keeps them.
"""

from __future__ import annotations

from typing import Any

from flowengine.client.arguments import of_type
from flowengine.client.metrics.accumulators import Metric, Tally, metric, quotient, tally
from flowengine.client.weights import check_weights, number_of, spread_weights
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions.math import cast
from flowengine.graphs.functions.reductions import reduce_sum
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


def precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    *,
    name: str | None = None,
) -> Metric:
    """Compute the share of right ones among the k classes predicted first; of one class if given.

    Shapes and types as the module says; the value is a scalar of float64. Raises InvalidArgumentError where
    they do not fit.
    """
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or _named("precision", k, class_id)):
        top = graph.ops.TopKV2(convert(graph, predictions), k).indices
        return precision_at_top_k(labels, top, class_id, weights, name="top")


def recall_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    *,
    name: str | None = None,
) -> Metric:
    """Compute the share of the right classes that are among the k predicted first; of one class if given.

    Shapes and types as the module says; the value is a scalar of float64. Raises InvalidArgumentError where
    they do not fit.
    """
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or _named("recall", k, class_id)):
        top = graph.ops.TopKV2(convert(graph, predictions), k).indices
        return recall_at_top_k(labels, top, class_id, weights, name="top")


def precision_at_top_k(
    labels: Any, predicted: Any, class_id: int | None = None, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Compute `precision_at_k` from predicted classes instead of scores.

    Shapes and types as the module says; the value is a scalar of float64. Raises InvalidArgumentError where
    they do not fit.
    """
    graph = graph_of(predicted, labels)
    with graph.name_scope(name or _named("precision", None, class_id)):
        wanted, found = _sets(graph, labels, predicted)
        right = _any_equal(found, wanted)
        hits = _tallied(_of_class(found, right, class_id), weights, "true_positives")
        wrong = graph.ops.LogicalNot(right)
        return metric(
            _plain_share, hits, _tallied(_of_class(found, wrong, class_id), weights, "false_positives")
        )


def recall_at_top_k(
    labels: Any, predicted: Any, class_id: int | None = None, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Compute `recall_at_k` from predicted classes instead of scores.

    Shapes and types as the module says; the value is a scalar of float64. Raises InvalidArgumentError where
    they do not fit.
    """
    graph = graph_of(predicted, labels)
    with graph.name_scope(name or _named("recall", None, class_id)):
        wanted, found = _sets(graph, labels, predicted)
        hits = _tallied(_of_class(found, _any_equal(found, wanted), class_id), weights, "true_positives")
        missed = graph.ops.LogicalAnd(
            graph.ops.LogicalNot(_any_equal(wanted, found)), _first_of_its_kind(wanted)
        )
        return metric(
            _plain_share, hits, _tallied(_of_class(wanted, missed, class_id), weights, "false_negatives")
        )


def average_precision_at_k(
    labels: Any, predictions: Any, k: int, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Return the mean over examples of the precision at each right class among the k predicted first.

    By example: the sum over right ones of the precision up to there, by the lesser of k and the number of
    its labels that are not negative.

    Shapes and types as the module says; the value is a scalar of float64. Raises InvalidArgumentError where
    they do not fit.
    """
    graph = graph_of(predictions, labels)
    if k < 1:
        raise InvalidArgumentError(f"metrics.average_precision_at_k: k is {k}; it is at least 1")
    with graph.name_scope(name or _named("average_precision", k, None)):
        ops = graph.ops
        wanted, found = _sets(graph, labels, ops.TopKV2(convert(graph, predictions), k).indices)
        right = cast(_any_equal(found, wanted), dtypes.float64)
        ranks = graph.constant([float(each + 1) for each in range(k)], dtypes.float64)
        precision = ops.RealDiv(ops.Cumsum(right, -1), ranks)
        count = ops.Sum(ops.Cast(ops.GreaterEqual(wanted, 0), DstT=dtypes.float64), [-1])
        average = ops.RealDiv(ops.Sum(ops.Mul(precision, right), [-1]), ops.Minimum(count, float(k)))
        if weights is None:
            most = number_of(average)
        else:
            factors = of_type(graph, weights, dtypes.float64)
            most = reduce_sum(spread_weights("metrics", factors, average))
            average = ops.Mul(average, factors)
        return metric(quotient, tally(reduce_sum(average), "total"), tally(most, "max"))


def _named(what: str, k: int | None, class_id: int | None) -> str:
    return f"{what}_at_{'top_k' if k is None else k}" + ("" if class_id is None else f"_class{class_id}")


def _plain_share(hits: Tensor, misses: Tensor, name: str) -> Tensor:
    """NaN while there has been nothing, as in TensorFlow."""
    ops = hits.graph.ops
    result: Tensor = ops.RealDiv(hits, ops.Add(hits, misses), name=name)
    return result


def _sets(graph: Graph, labels: Any, predicted: Any) -> tuple[Tensor, Tensor]:
    """Labels (D_1, ..., D_r, L) and predicted classes (D_1, ..., D_r, k), int64."""
    found = cast(convert(graph, predicted), dtypes.int64)
    wanted = cast(convert(graph, labels), dtypes.int64)
    if wanted.shape.rank is None or found.shape.rank is None:
        raise InvalidArgumentError(
            "metrics: the ranks of labels and predictions must be known: use set_shape"
        )
    if wanted.shape.rank + 1 == found.shape.rank:
        wanted = graph.ops.ExpandDims(wanted, -1)
    if wanted.shape.rank != found.shape.rank:
        raise InvalidArgumentError(
            f"metrics: labels of shape {wanted.shape} do not fit predictions of shape {found.shape}"
        )
    return wanted, found


def _any_equal(some: Tensor, others: Tensor) -> Tensor:
    """Whether each of (..., A) is among the (..., B) of its row; bool (..., A)."""
    ops = some.graph.ops
    same = ops.Equal(ops.ExpandDims(some, -1), ops.ExpandDims(others, -2))
    result: Tensor = ops.Any(same, [-1])
    return result


def _first_of_its_kind(labels: Tensor) -> Tensor:
    """Whether no equal one stands before it in its row; bool (..., L)."""
    ops = labels.graph.ops
    same = ops.Cast(ops.Equal(ops.ExpandDims(labels, -1), ops.ExpandDims(labels, -2)), DstT=dtypes.float32)
    before = ops.Sum(ops.MatrixBandPart(same, -1, 0), [-1])
    result: Tensor = ops.Less(before, 1.5)
    return result


def _of_class(classes: Tensor, chosen: Tensor, class_id: int | None) -> Tensor:
    """How many of the last axis are chosen, of one class alone if it is given; float64 (...)."""
    ops = classes.graph.ops
    if class_id is not None:
        chosen = ops.LogicalAnd(chosen, ops.Equal(classes, class_id))
    result: Tensor = ops.Sum(ops.Cast(chosen, DstT=dtypes.float64), [-1])
    return result


def _tallied(counts: Tensor, weights: Any, name: str) -> Tally:
    graph = counts.graph
    if weights is not None:
        factors = of_type(graph, weights, dtypes.float64)
        counts = graph.ops.Mul(counts, check_weights("metrics", factors, counts))
    return tally(reduce_sum(counts), name)
