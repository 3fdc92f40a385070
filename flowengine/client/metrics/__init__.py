r"""Streaming metrics: how good a model is over many batches, kept in variables of the graph.

Each returns a `Metric`, two tensors: `value` and `update`. Fetch the value in a step after the updates: in
one step it may be read before or after. `labels` and `predictions` (or `predicted` classes) are tensors, `k`,
`class_id` and `num_classes` integers, `thresholds` between 0 and 1. Weights are a scalar, or of the rank of
the counted values with each dimension 1 or theirs. Errors: InvalidArgumentError if shapes do not fit.

`curve` is "ROC" or "PR"; `num_thresholds` counts the thresholds that it is approximated at; `sensitivity` and
`specificity` are rates from 0 to 1.

>>> metrics, graph = fe.metrics, fe.Graph()
>>> labels, predictions = graph.placeholder("int32", [None]), graph.placeholder("int32", [None])
>>> accuracy = metrics.accuracy(labels, predictions)
>>> with fe.blocking.Session(graph) as session:
...     initialized = session.initialize()
...     for batch in ({labels: [1, 0], predictions: [1, 1]}, {labels: [1, 1], predictions: [1, 1]}):
...         running = session.run(accuracy.update, batch)
...     print(session.run(accuracy.value))
0.75
>>> truth, found = graph.constant([True, True, False, False]), graph.constant([True, False, True, False])
>>> scores, values = graph.constant([0.9, 0.4, 0.6, 0.1]), graph.constant([[1.0, 2.0], [3.0, 4.0]])
>>> kept = [metrics.true_positives(truth, found), metrics.false_positives(truth, found)]
>>> kept += [metrics.true_negatives(truth, found), metrics.false_negatives(truth, found)]
>>> kept += [metrics.precision(truth, found), metrics.recall(truth, found), metrics.auc(truth, scores)]
>>> kept += [metrics.sensitivity_at_specificity(truth, scores, 0.5)]
>>> kept += [metrics.specificity_at_sensitivity(truth, scores, 0.5)]
>>> kept += [metrics.mean(values), metrics.percentage_below(values, 2.5)]
>>> kept += [metrics.mean_iou([0], graph.constant([0]), 2)]
>>> kept += [metrics.mean_absolute_error([1.0], scores[:1]), metrics.mean_squared_error([1.0], scores[:1])]
>>> kept += [metrics.root_mean_squared_error([1.0], scores[:1])]
>>> kept += [metrics.mean_cosine_distance([[0.6, 0.8]], fe.nn.l2_normalize(values[:1]), 1)]
>>> kept += [metrics.mean_relative_error([1.0], scores[:1], [2.0])]
>>> kept += [metrics.mean_per_class_accuracy([0, 1], graph.constant([0, 1]), 2)]
>>> top = graph.constant([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
>>> labels = graph.constant([[1], [1]], "int64")
>>> kept += [metrics.precision_at_k(labels, top, 1), metrics.recall_at_k(labels, top, 2)]
>>> kept += [metrics.average_precision_at_k(labels, top, 2)]
>>> first = fe.top_k(top, 1)[1]
>>> kept += [metrics.precision_at_top_k(labels, first), metrics.recall_at_top_k(labels, first)]
>>> with fe.blocking.Session(graph) as session:
...     initialized = session.initialize()
...     shown = np.round([float(each) for each in session.run([each.update for each in kept])], 2).tolist()
...     print(shown[:12], shown[12:], sep="\n")
[1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.75, 1.0, 1.0, 2.5, 0.5, 1.0]
[0.1, 0.01, 0.1, 0.02, 0.05, 1.0, 0.5, 1.0, 0.75, 0.5, 0.5]
>>> kept = [metrics.mean_tensor(values), metrics.precision_at_thresholds(truth, scores, [0.5])]
>>> kept += [metrics.recall_at_thresholds(truth, scores, [0.5])]
>>> kept += [metrics.true_positives_at_thresholds(truth, scores, [0.5])]
>>> kept += [metrics.false_positives_at_thresholds(truth, scores, [0.5])]
>>> kept += [metrics.true_negatives_at_thresholds(truth, scores, [0.5])]
>>> kept += [metrics.false_negatives_at_thresholds(truth, scores, [0.5])]
>>> with fe.blocking.Session(graph) as session:
...     initialized = session.initialize()
...     print(*(each.tolist() for each in session.run([each.update for each in kept])))
...     print(session.run(metrics.confusion_matrix([0, 1, 1], graph.constant([0, 1, 0]), 2)).tolist())
[[1.0, 2.0], [3.0, 4.0]] [0.5] [0.5] [1.0] [1.0] [1.0] [1.0]
[[1, 0], [1, 1]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowengine.client.metrics.accumulators import METRIC_VARIABLES, Metric
from flowengine.client.metrics.at_k import (
    average_precision_at_k,
    precision_at_k,
    precision_at_top_k,
    recall_at_k,
    recall_at_top_k,
)
from flowengine.client.metrics.confusion import confusion_matrix, mean_iou, mean_per_class_accuracy
from flowengine.client.metrics.counts import (
    false_negatives,
    false_negatives_at_thresholds,
    false_positives,
    false_positives_at_thresholds,
    precision,
    precision_at_thresholds,
    recall,
    recall_at_thresholds,
    true_negatives,
    true_negatives_at_thresholds,
    true_positives,
    true_positives_at_thresholds,
)
from flowengine.client.metrics.curves import auc, sensitivity_at_specificity, specificity_at_sensitivity
from flowengine.client.metrics.means import (
    accuracy,
    mean,
    mean_absolute_error,
    mean_cosine_distance,
    mean_relative_error,
    mean_squared_error,
    mean_tensor,
    percentage_below,
    root_mean_squared_error,
)
from flowengine.core.public_names.missing import public_module

__all__ = [
    "METRIC_VARIABLES",
    "Metric",
    "accuracy",
    "auc",
    "average_precision_at_k",
    "confusion_matrix",
    "false_negatives",
    "false_negatives_at_thresholds",
    "false_positives",
    "false_positives_at_thresholds",
    "mean",
    "mean_absolute_error",
    "mean_cosine_distance",
    "mean_iou",
    "mean_per_class_accuracy",
    "mean_relative_error",
    "mean_squared_error",
    "mean_tensor",
    "percentage_below",
    "precision",
    "precision_at_k",
    "precision_at_thresholds",
    "precision_at_top_k",
    "recall",
    "recall_at_k",
    "recall_at_thresholds",
    "recall_at_top_k",
    "root_mean_squared_error",
    "sensitivity_at_specificity",
    "specificity_at_sensitivity",
    "true_negatives",
    "true_negatives_at_thresholds",
    "true_positives",
    "true_positives_at_thresholds",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
