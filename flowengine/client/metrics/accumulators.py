"""The parts of every metric: sums that outlive steps, and a formula over them.

A metric is two tensors: `value`, the formula over the present sums, and `update`, which adds a batch to the
sums and is the formula over the new ones. The sums are variables of the collections "local_variables" (no
checkpoint holds them, and initializing them resets the metric) and "metric_variables".
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
    """A streaming metric.

    value    the metric of all batches so far
    update   the tensor that adds a batch when a step fetches it; its value is the metric afterwards

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None])
    >>> mean = fe.metrics.mean(x)
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     print(session.run(mean.update, {x: [1.0, 2.0]}), session.run(mean.update, {x: [6.0]}))
    1.5 3.0
    """

    value: Tensor
    update: Tensor


class Tally(NamedTuple):
    """A sum that outlives steps: its present value, and the one after adding a batch."""

    current: Tensor
    updated: Tensor


def tally(amount: Tensor, name: str) -> Tally:
    """Add a variable of zeros that sums an amount, whose shape must be known."""
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
    """Return the metric of a formula, which is called with the sums, before and after a batch, and a name."""
    return Metric(
        formula(*(each.current for each in tallies), "value"),
        formula(*(each.updated for each in tallies), "update_op"),
    )


def quotient(a: Tensor, b: Tensor, name: str) -> Tensor:
    """Return a / b, 0 where b is 0."""
    result: Tensor = a.graph.ops.DivNoNan(a, b, name=name)
    return result


def weighted_mean(values: Tensor, weights: Any) -> Metric:
    """Return the weighted mean of all values so far, in the caller's name scope."""
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
    """Return weights in the type and rank of the values: a last axis of 1 is added or removed."""
    return like_rank(of_type(graph, weights, values.dtype.base), values)


def like_rank(tensor: Tensor, values: Tensor) -> Tensor:
    """Return a tensor with a last axis of 1 removed or added if its rank is one off that of the values."""
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
    """Return labels and predictions of one type and rank: a last axis of 1 that only one has is removed."""
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
