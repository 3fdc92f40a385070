"""Metrics over classes, from how often each is taken for each.

labels and predictions are integers of one shape (D_1, ..., D_r), weights floats that broadcast to it; metrics
are () float32, and the matrix (num_classes, num_classes) of the requested type.
"""

from __future__ import annotations

from typing import Any

from flowengine.client.metrics.accumulators import Metric, metric, paired, tally
from flowengine.core import dtypes
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions.math import cast
from flowengine.graphs.tensor import Tensor


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    *,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Count how often a class (row) was predicted as a class (column): (num_classes, num_classes) of dtype.

    labels, predictions   of one shape, in 0 ... num_classes-1; InvalidArgumentError in the run elsewhere
    weights               of their shape, or None for 1 each

    Raises InvalidArgumentError where shapes do not fit.
    """
    graph = graph_of(predictions, labels)
    kind = dtypes.as_dtype(dtype)
    with graph.name_scope(name or "confusion_matrix"):
        ops = graph.ops
        wanted, found = paired(graph, labels, predictions, dtypes.int64)
        places = ops.Pack([ops.Reshape(wanted, [-1]), ops.Reshape(found, [-1])], axis=1)
        if weights is None:
            amounts = ops.Fill(ops.Slice(ops.Shape(places), [0], [1]), graph.constant(1, kind))
        else:
            amounts = cast(ops.Reshape(convert(graph, weights), [-1]), kind)
        shape = graph.constant([num_classes, num_classes], dtypes.int64)
        result: Tensor = ops.ScatterNd(places, amounts, shape)
    return result


def mean_iou(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Compute the mean intersection over union: tp / (tp + fp + fn), over the classes seen.

    labels, predictions   (D_1, ..., D_r) in 0 ... num_classes-1

    labels, predictions (D_1, ..., D_r) of whole numbers; the value is a scalar of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(predictions, labels)

    def formula(matrix: Tensor, label: str) -> Tensor:
        ops = matrix.graph.ops
        hits = ops.MatrixDiagPart(matrix)
        union = ops.Sub(ops.Add(ops.Sum(matrix, [0]), ops.Sum(matrix, [1])), hits)
        there = ops.Sum(ops.Cast(ops.NotEqual(union, 0.0), DstT=union.dtype), [0])
        result: Tensor = ops.DivNoNan(ops.Sum(ops.DivNoNan(hits, union), [0]), there, name=label)
        return result

    with graph.name_scope(name or "mean_iou"):
        matrix = confusion_matrix(labels, predictions, num_classes, weights, dtype=dtypes.float64)
        found = metric(formula, tally(matrix, "total_confusion_matrix"))
        return Metric(cast(found.value, dtypes.float32), cast(found.update, dtypes.float32))


def mean_per_class_accuracy(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, *, name: str | None = None
) -> Metric:
    """Return the mean over all classes of how often an example of the class was predicted as such.

    A class that is absent counts as 0.

    labels, predictions   (D_1, ..., D_r) in 0 ... num_classes-1

    labels, predictions (D_1, ..., D_r) of whole numbers; the value is a scalar of float32. Raises
    InvalidArgumentError if shapes or weights do not fit; if they are unknown, the step raises it.
    """
    graph = graph_of(predictions, labels)

    def formula(total: Tensor, hits: Tensor, label: str) -> Tensor:
        ops = total.graph.ops
        result: Tensor = ops.Mean(ops.DivNoNan(hits, total), [0], name=label)
        return result

    with graph.name_scope(name or "mean_accuracy"):
        ops = graph.ops
        matrix = confusion_matrix(labels, predictions, num_classes, weights, dtype=dtypes.float32)
        total = tally(ops.Sum(matrix, [1]), "total")
        return metric(formula, total, tally(ops.MatrixDiagPart(matrix), "count"))
