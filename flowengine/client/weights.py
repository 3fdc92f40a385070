"""Weights of losses and metrics: one for all, or along each axis one or as many as there are values."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.functions import array
from flowengine.graphs.tensor import Operation, Tensor


def check_weights(what: str, weights: Tensor, values: Tensor) -> Tensor:
    """The weights, sure to fit values: of rank 0, or of the same rank with dimensions of 1 or as theirs.

    Raises InvalidArgumentError if they do not fit; if their shapes are unknown, the step raises it.
    """
    given, wanted = weights.shape, values.shape
    if given.rank == 0:
        return weights
    message = (
        f"{what}: weights of shape {given} do not fit values of shape {wanted}: they are a scalar, or have "
        "the same rank and each dimension is 1 or that of the values"
    )
    if given.dims is not None and wanted.dims is not None:
        pairs = list(zip(given.dims, wanted.dims, strict=False))
        if len(given.dims) != len(wanted.dims) or any(
            None not in (a, b) and a not in (1, b) for a, b in pairs
        ):
            raise InvalidArgumentError(message)
        if all(a == 1 or (a is not None and a == b) for a, b in pairs):
            return weights
    check = _checked_when_run(message, weights, values)
    graph = weights.graph
    with graph.control_dependencies([check]):
        result: Tensor = graph.ops.Identity(weights, name="weights")
    return result


def _checked_when_run(message: str, weights: Tensor, values: Tensor) -> Operation:
    ops = weights.graph.ops
    with weights.graph.name_scope("assert_broadcastable"):
        mine, theirs = array.shape(weights), array.shape(values)
        my_rank, their_rank = array.rank(weights), array.rank(values)
        common = ops.Reshape(ops.Minimum(my_rank, their_rank), [1])
        begin_mine, begin_theirs = (ops.Slice(shape, [0], common) for shape in (mine, theirs))
        fits = ops.All(ops.LogicalOr(ops.Equal(begin_mine, 1), ops.Equal(begin_mine, begin_theirs)), [0])
        fits = ops.LogicalAnd(fits, ops.Equal(my_rank, their_rank))
        fits = ops.LogicalOr(fits, ops.Equal(my_rank, 0))
        result: Operation = ops.Assert(fits, [message, mine, theirs], T=["string", "int32", "int32"])
    return result


def spread_weights(what: str, weights: Tensor, values: Tensor) -> Tensor:
    """The weights with the shape of values, one for each."""
    if weights.shape.is_fully_defined and weights.shape == values.shape:
        return weights
    ops = weights.graph.ops
    ones = array.ones_like(values)
    if ones.dtype.base is not weights.dtype.base:
        ones = ops.Cast(ones, DstT=weights.dtype.base)
    result: Tensor = ops.Mul(check_weights(what, weights, values), ones, name="broadcast_weights")
    return result


def number_of(values: Tensor) -> Tensor:
    """How many elements values have, in their type."""
    ops = values.graph.ops
    count = values.shape.num_elements()
    if count is not None:
        return values.graph.constant(count, values.dtype.base, name="num_elements")
    result: Tensor = ops.Cast(ops.Size(values, name="num_elements"), DstT=values.dtype.base)
    return result


def where_nonzero(weights: Tensor) -> Tensor:
    """1 where a weight is not 0, else 0; of the type of weights."""
    ops = weights.graph.ops
    result: Tensor = ops.Cast(ops.NotEqual(weights, 0), DstT=weights.dtype.base, name="present")
    return result


__all__ = ["check_weights", "number_of", "spread_weights", "where_nonzero"]
