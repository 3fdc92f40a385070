"""Gradients of axes in another order."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integers, known
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
