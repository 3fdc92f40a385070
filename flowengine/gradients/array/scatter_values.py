"""Gradients of rows scattered into tensors.

The order in which several rows come to one place is open, so of rows that replace each other each gets what
the place has.
"""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("ScatterNd")
def scatter(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each row what its place has"""
    return [None, b.ops.GatherNd(grad, op.inputs[0]), None]


@gradient("ScatterNdNonAliasingAdd", "TensorScatterAdd")
def scatter_add(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, and to each row what its place has"""
    return [grad, None, b.ops.GatherNd(grad, op.inputs[1])]


@gradient("TensorScatterSub")
def scatter_sub(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, and to each row what its place has, negated"""
    return [grad, None, b.ops.Neg(b.ops.GatherNd(grad, op.inputs[1]))]


@gradient("TensorScatterUpdate")
def scatter_update(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g with zeros where rows were written, and to each row what its place has"""
    _, places, updates = op.inputs
    rest = b.ops.TensorScatterUpdate(grad, places, b.zeros_like(updates))
    return [rest, None, b.ops.GatherNd(grad, places)]


@gradient("TensorScatterMax", "TensorScatterMin")
def scatter_extreme(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g to the extreme elements of the tensor and of the rows, in equal shares where there are several"""
    x, places, updates = op.inputs
    y = op.outputs[0]
    kind = grad.dtype.base
    mine = b.ops.Cast(b.ops.Equal(x, y), DstT=kind)
    theirs = b.ops.Cast(b.ops.Equal(updates, b.ops.GatherNd(y, places)), DstT=kind)
    count = b.ops.TensorScatterAdd(mine, places, theirs)
    share = b.ops.RealDiv(grad, count)
    return [b.ops.Mul(share, mine), None, b.ops.Mul(b.ops.GatherNd(share, places), theirs)]
