"""Gradients of what gives a tensor rather than computes one."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, rank
from flowengine.gradients.values import Backward, Gradient, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("PlaceholderWithDefault", slices=True)
def placeholder_with_default(b: Backward, op: Operation, grad: Gradient) -> Results:
    """g"""
    return [grad]


@gradient("Fill")
def fill(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The sum of all of g"""
    axes = b.ops.Range(integer(b, 0), rank(b, op.outputs[0]), integer(b, 1))
    return [None, b.ops.Sum(grad, axes)]
