"""Gradients of functions of two tensors that are broadcast together."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Gradient, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Mul")
def mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The gradient times the other factor."""
    x, y = op.inputs
    return [
        b.sum_to(b.ops.Mul(grad, b.real_or_conj(y)), x, y),
        b.sum_to(b.ops.Mul(b.real_or_conj(x), grad), y, x),
    ]


@gradient("AddN", "AccumulateNV2", slices=True)
def add_n(b: Backward, op: Operation, grad: Gradient) -> Results:
    """Every summand's gradient is that of the sum; slices stay slices."""
    return [grad] * len(op.inputs)
