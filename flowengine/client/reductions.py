"""The reduction of weighted losses: to a sum, to one mean or another, or none."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, TypedDict, Unpack

from flowengine.client.arguments import check_options, computing_type, of_type
from flowengine.client.weights import check_weights, number_of, spread_weights, where_nonzero
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import graph_of
from flowengine.graphs.functions.math import cast
from flowengine.graphs.functions.reductions import reduce_mean, reduce_sum
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor

#: The collection to which losses are added unless another is given.
LOSSES: Final = "losses"
#: The collection of the penalties of regularizers.
REGULARIZATION_LOSSES: Final = "regularization_losses"


class Reduction(StrEnum):
    """A way to reduce the weighted losses; the values are TensorFlow's."""

    NONE = "none"  # no reduction
    SUM = "weighted_sum"
    MEAN = "weighted_mean"  # the sum by the sum of the weights
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"  # the sum by the number of losses
    SUM_OVER_NONZERO_WEIGHTS = "weighted_sum_over_nonzero_weights"  # the same as the next
    SUMBY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"  # the sum by the number of weights not 0


BY_NONZERO: Final = Reduction.SUMBY_NONZERO_WEIGHTS


class LossOptions(TypedDict, total=False):
    """Options of every loss.

    reduction    a `Reduction` or its value; by default the sum by the number of weights that are not 0
    collection   the collection to which the loss is added, by default "losses"; None for none
    name         the name of the scope of its nodes
    """

    reduction: Reduction | str
    collection: str | None
    name: str | None


def weighted(
    losses: Tensor,
    weights: Any = 1.0,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Weight losses and reduce them, as every function of `fe.losses` does at its end.

    losses      (D_1, ..., D_r) of a number type
    weights     a scalar or (d_1, ..., d_r), each d_i 1 or D_i
    options     `reduction`, a `Reduction` or its name; `collection`, to which the loss is added; `name`
    returns     scalar of the type of losses; (D_1, ..., D_r) if reduction is "none"

    Raises InvalidArgumentError for weights that do not fit, and for an unknown reduction.

    >>> graph = fe.Graph()
    >>> loss = fe.losses.weighted(graph.constant([1.0, 3.0]), [1.0, 0.5], reduction="weighted_sum")
    >>> fe.testing.evaluate(graph, [loss.name])[0].tolist()
    2.5
    """
    graph = graph_of(losses)
    with graph.name_scope(options.get("name") or "weighted_loss"):
        return reduced(losses, weights, options)


def reduced(losses: Tensor, weights: Any, options: LossOptions) -> Tensor:
    """Do as `weighted`, in the present name scope."""
    check_options("a loss", options, LossOptions)
    reduction, collection = options.get("reduction", BY_NONZERO), options.get("collection", LOSSES)
    try:
        rule = Reduction(reduction)
    except ValueError:
        known = ", ".join(Reduction)
        raise InvalidArgumentError(f"reduction is one of {known}, not {reduction!r}") from None
    graph, ops, dtype = losses.graph, losses.graph.ops, computing_type(losses)
    counted = result = cast(losses, dtype)
    # A number that is known not to be 0 counts every loss: no node is spent on finding that out.
    counts_all = isinstance(weights, int | float) and weights != 0
    factors = None
    if not counts_all or weights != 1:
        factors = of_type(graph, weights, dtype)
        factors = check_weights("losses", factors, losses)
        result = ops.Mul(counted, factors)
    if rule is Reduction.SUM:
        result = reduce_sum(result)
    elif rule is not Reduction.NONE:
        count = None if factors is None else _counted(rule, factors, counted, counts_all)
        result = _mean(result) if count is None else ops.DivNoNan(reduce_sum(result), count, name="value")
    return kept(graph, cast(result, losses.dtype.base), collection)


def _counted(rule: Reduction, factors: Tensor, losses: Tensor, counts_all: bool) -> Tensor | None:
    """Compute the divisor for the sum of weighted losses; None to divide by their number."""
    if rule is Reduction.MEAN:
        return reduce_sum(spread_weights("losses", factors, losses))
    if rule is Reduction.SUM_OVER_BATCH_SIZE or counts_all:
        return None
    return reduce_sum(spread_weights("losses", where_nonzero(factors), losses), name="num_present")


def _mean(values: Tensor) -> Tensor:
    """Return the mean, or 0 for no values."""
    if values.shape.num_elements():
        return reduce_mean(values, name="value")
    result: Tensor = values.graph.ops.DivNoNan(reduce_sum(values), number_of(values), name="value")
    return result


def kept(graph: Graph, loss: Tensor, collection: str | None) -> Tensor:
    """Add a loss to its collection, and return it."""
    if collection is not None:
        graph.add_to_collection(collection, loss)
    return loss


__all__ = ["LOSSES", "REGULARIZATION_LOSSES", "LossOptions", "Reduction", "kept", "reduced", "weighted"]
