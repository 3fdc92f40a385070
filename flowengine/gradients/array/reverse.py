"""Gradients of elements in the opposite order, and rotated ones."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Reverse")
def reverse(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g turned back"""
    return [b.ops.Reverse(grad, op.inputs[1]), None]


@gradient("ReverseV2")
def reverse_along(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g turned back"""
    return [b.ops.ReverseV2(grad, op.inputs[1]), None]


@gradient("ReverseSequence")
def reverse_sequence(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g turned back as far as each sequence goes"""
    result = b.ops.ReverseSequence(
        grad, op.inputs[1], seq_dim=op.get_attr("seq_dim"), batch_dim=op.get_attr("batch_dim")
    )
    return [result, None]


@gradient("Roll")
def roll(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g rolled back"""
    _, shift, axis = op.inputs
    return [b.ops.Roll(grad, b.ops.Neg(shift), axis), None, None]
