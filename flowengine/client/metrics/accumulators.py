"""The parts of every metric: sums that outlive steps, and a formula over them.

A metric is two tensors: `value`, the formula over the sums as they are, and `update`, which adds a batch to
the sums and is the formula over what they are then. The sums are variables of the collections
"local_variables" (no checkpoint holds them, initializing them starts the metric anew) and "metric_variables".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.client.arguments import computing_type, of_type
from flowengine.client.weights import check_weights, number_of, spread_weights
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert
from flowengine.graphs.functions.math import cast
from flowengine.graphs.functions.reductions import reduce_sum
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor

#: The collection of the variables of metrics.
METRIC_VARIABLES: Final = "metric_variables"


class Metric(NamedTuple):
    """A streaming metric: its value so far, and the update by a batch, whose value is the metric after it."""

    value: Tensor
    update: Tensor


class Tally(NamedTuple):
    """A sum that outlives steps: as it is, and after a batch has been added."""

    current: Tensor
    updated: Tensor


def tally(amount: Tensor, name: str) -> Tally:
    """A variable of zeros, to which the amount is added. The shape of the amount must be known."""
    graph = amount.graph
    shape = amount.shape.as_tuple()
    if shape is None:
        raise InvalidArgumentError(f"metric '{name}': the shape of the values must be known: use set_shape")
    variable = graph.variable(
        np.zeros(shape, amount.dtype.as_numpy_dtype),
        name=name,
        dtype=amount.dtype.base,
        trainable=False,
        collections=("local_variables", METRIC_VARIABLES),
    )
    return Tally(variable.value(), variable.assign_add(amount))


def metric(formula: Callable[..., Tensor], *tallies: Tally) -> Metric:
    """The formula over the sums as they are and as they are then; it is called with sums and a name."""
    return Metric(
        formula(*(each.current for each in tallies), "value"),
        formula(*(each.updated for each in tallies), "update_op"),
    )


def quotient(a: Tensor, b: Tensor, name: str) -> Tensor:
    """a / b, 0 where b is 0."""
    result: Tensor = a.graph.ops.DivNoNan(a, b, name=name)
    return result


def weighted_mean(values: Tensor, weights: Any) -> Metric:
    """The mean of all values so far, each as often as its weight says; the name scope is the caller's."""
    graph, dtype = values.graph, computing_type(values)
    amounts = cast(values, dtype)
    if weights is None:
        count = number_of(amounts)
    else:
        factors = check_weights("metrics", as_weights(graph, weights, amounts), amounts)
        count = reduce_sum(spread_weights("metrics", factors, amounts))
        amounts = graph.ops.Mul(amounts, factors)
    return metric(quotient, tally(reduce_sum(amounts), "total"), tally(count, "count"))


def as_weights(graph: Graph, weights: Any, values: Tensor) -> Tensor:
    """Weights in the type of the values; with an axis of 1 more or less at the end if the values have."""
    return like_rank(of_type(graph, weights, values.dtype.base), values)


def like_rank(tensor: Tensor, values: Tensor) -> Tensor:
    """A tensor with a last axis of 1 taken away or added, where its rank is one off that of the values."""
    ops = tensor.graph.ops
    mine, theirs = tensor.shape.rank, values.shape.rank
    if mine is None or theirs is None or mine == 0:
        return tensor
    result = tensor
    if mine == theirs + 1 and tensor.shape[-1] in (1, None):
        result = ops.Squeeze(tensor, squeeze_dims=[-1])
    elif mine + 1 == theirs:
        result = ops.ExpandDims(tensor, -1)
    return result


def paired(graph: Graph, labels: Any, predictions: Any, dtype: Any = None) -> tuple[Tensor, Tensor]:
    """Labels and predictions of one type and rank: a last axis of 1 that only one has is taken away."""
    found = convert(graph, predictions)
    kind = found.dtype.base if dtype is None else dtype
    wanted, found = cast(convert(graph, labels), kind), cast(found, kind)
    ops = graph.ops
    first, second = wanted.shape.rank, found.shape.rank
    if first is not None and second is not None:
        if first == second + 1 and wanted.shape[-1] in (1, None):
            wanted = ops.Squeeze(wanted, squeeze_dims=[-1])
        elif second == first + 1 and found.shape[-1] in (1, None):
            found = ops.Squeeze(found, squeeze_dims=[-1])
    if not wanted.shape.is_compatible_with(found.shape):
        raise InvalidArgumentError(
            f"metrics: labels have the shape {wanted.shape}, predictions {found.shape}"
        )
    return wanted, found


__all__ = [
    "METRIC_VARIABLES",
    "Metric",
    "Tally",
    "as_weights",
    "like_rank",
    "metric",
    "paired",
    "quotient",
    "tally",
    "weighted_mean",
]
