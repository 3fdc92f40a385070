"""Gradients of values written to places of a tensor, and rows dealt out and put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, known, per_row, same, size
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of rows scattered into tensors.
#
# The order in which several rows come to one place is open, so of rows that replace each other each gets
# what
# the place has.


def _policy(op: Operation) -> dict[str, Any]:
    """Return the op's policy as attributes: an index ignored forwards is ignored backwards too."""
    return same(op, "bad_indices_policy")


@gradient("ScatterNd")
def scatter(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its place has"""
    return [None, b.ops.GatherNd(grad, op.inputs[0], **_policy(op)), None]


@gradient("ScatterNdNonAliasingAdd", "TensorScatterAdd")
def scatter_add(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, and to each row what its place has"""
    return [grad, None, b.ops.GatherNd(grad, op.inputs[1], **_policy(op))]


@gradient("TensorScatterSub")
def scatter_sub(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, and to each row what its place has, negated"""
    return [grad, None, b.ops.Neg(b.ops.GatherNd(grad, op.inputs[1], **_policy(op)))]


@gradient("TensorScatterUpdate")
def scatter_update(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g with zeros where rows were written, and to each row what its place has"""
    _, places, updates = op.inputs
    rest = b.ops.TensorScatterUpdate(grad, places, b.zeros_like(updates), **_policy(op))
    return [rest, None, b.ops.GatherNd(grad, places, **_policy(op))]


@gradient("TensorScatterMax", "TensorScatterMin")
def scatter_extreme(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g to the extreme elements of the tensor and of the rows, in equal shares where there are several"""
    x, places, updates = op.inputs
    y = op.outputs[0]
    kind, policy = grad.dtype.base, _policy(op)
    mine = b.ops.Cast(b.ops.Equal(x, y), DstT=kind)
    theirs = b.ops.Cast(b.ops.Equal(updates, b.ops.GatherNd(y, places, **policy)), DstT=kind)
    count = b.ops.TensorScatterAdd(mine, places, theirs, **policy)
    share = b.ops.RealDiv(grad, count)
    return [b.ops.Mul(share, mine), None, b.ops.Mul(b.ops.GatherNd(share, places, **policy), theirs)]


# Gradients of rows dealt out to several tensors, and of rows put together.


@gradient("DynamicPartition")
def partition(b: Backward, op: Operation, *grads: Tensor) -> Results:
    """The gradients of the parts, stitched together where their rows came from"""
    data, parts = op.inputs
    every = b.ops.Range(integer(b, 0), size(b, parts), integer(b, 1))
    places = b.ops.Reshape(every, b.shape(parts))
    origins = b.ops.DynamicPartition(places, parts, num_partitions=op.get_attr("num_partitions"))
    together = b.ops.ParallelDynamicStitch(origins, grads)
    return [b.ops.Reshape(together, b.shape(data)), None]


@gradient("ParallelDynamicStitch")
def stitch_any(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its place has; each place is written once."""
    places = op.inputs[: op.get_attr("N")]
    return [*[None] * len(places), *[_at(b, grad, each) for each in places]]


@gradient("DynamicStitch")
def stitch(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its place has; to one over which a later row was written, nothing"""
    count = op.get_attr("N")
    places, data = op.inputs[:count], op.inputs[count:]
    found = [_at(b, grad, each) for each in places]
    if not _are_distinct(places):
        zero = b.constant(0, grad.dtype)
        are_last = _are_last(b, places)
        for index, (each, rows) in enumerate(zip(places, data, strict=True)):
            is_last = per_row(b, are_last[index], each, rows)
            found[index] = b.ops.SelectV2(is_last, found[index], zero)
    return [*[None] * count, *found]


def _at(b: Backward, grad: Tensor, places: Tensor) -> Tensor:
    result: Tensor = b.ops.GatherV2(grad, places, integer(b, 0))
    return result


def _are_distinct(places: Sequence[Tensor]) -> bool:
    """Whether the graph alone tells that no place is written twice."""
    values = [known(each) for each in places]
    flat = [int(place) for each in values if each is not None for place in each.reshape(-1)]
    return all(each is not None for each in values) and len(set(flat)) == len(flat)


def _are_last(b: Backward, places: Sequence[Tensor]) -> list[Tensor]:
    """For each place whether it is not written again later: the rows are numbered and stitched, too."""
    numbers: list[Tensor] = []
    start = integer(b, 0)
    for each in places:
        end = b.ops.AddV2(start, size(b, each))
        numbers.append(b.ops.Reshape(b.ops.Range(start, end, integer(b, 1)), b.shape(each)))
        start = end
    writers = b.ops.DynamicStitch(places, numbers)
    return [b.ops.Equal(_at(b, writers, each), own) for each, own in zip(places, numbers, strict=True)]
