"""Gradients of rows scattered into tensors.

The order in which several rows come to one place is open, so of rows that replace each other each gets what
the place has.
"""

from __future__ import annotations

from typing import Any

from flowengine.gradients.attributes import same
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


def _policy(op: Operation) -> dict[str, Any]:
    """What is passed over forwards is passed over backwards."""
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
