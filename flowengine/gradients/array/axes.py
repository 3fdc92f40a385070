"""Gradients of axes in another order, and elements reversed or rolled along them."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integers, known
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of axes in another order.


@gradient("Transpose")
def transpose(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g with its axes where they were"""
    return [b.ops.Transpose(grad, _inverse(b, op.inputs[1])), None]


@gradient("ConjugateTranspose")
def conjugate_transpose(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The conjugate of g with its axes where they were"""
    return [b.ops.ConjugateTranspose(grad, _inverse(b, op.inputs[1])), None]


def _inverse(b: Backward, order: Tensor) -> Tensor:
    """The order that undoes an order of axes."""
    axes = known(order)
    if axes is not None:
        return integers(b, *np.argsort(axes % max(axes.size, 1)).tolist(), dtype=order.dtype.base)
    result: Tensor = b.ops.InvertPermutation(order)
    return result


# Gradients of elements in the opposite order, and rotated ones.


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
