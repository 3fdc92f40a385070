"""Streaming metrics: what a model does over many batches, kept in variables of the graph.

    accuracy = fe.metrics.accuracy(labels, predictions)
    await session.initialize()
    for batch in batches:
        await session.run(accuracy.update, batch)
    print(await session.run(accuracy.value))

Each returns a `Metric`, two tensors: `value` and `update`. Fetch the value in a step after the updates: in
one step it may be read before or after. Weights are a scalar or of the rank of what is counted, each
dimension 1 or its own. Errors: InvalidArgumentError where shapes do not fit.
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
