"""Gradients of rows that are written over or added to."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, rows
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("InplaceAdd")
def add_in_place(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g and its rows"""
    return [grad, None, _rows(b, op, grad)]


@gradient("InplaceSub")
def subtract_in_place(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g and its rows, negated"""
    return [grad, None, b.ops.Neg(_rows(b, op, grad))]


@gradient("InplaceUpdate")
def update_in_place(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g without the rows that were written over, and those rows"""
    values = op.inputs[2]
    # On a copy: the gradient of the output may have other readers.
    column = b.ops.Reshape(_wrapped(b, op), integers(b, -1, 1))
    rest = b.ops.TensorScatterUpdate(grad, column, b.zeros_like(values))
    return [rest, None, _rows(b, op, grad)]


def _rows(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    """Those rows that were written to, of the shape of the values."""
    found = b.ops.GatherV2(grad, _wrapped(b, op), integer(b, 0))
    result: Tensor = b.ops.Reshape(found, b.shape(op.inputs[2]))
    return result


def _wrapped(b: Backward, op: Operation) -> Tensor:
    """The numbers of the rows; negative ones and those behind the end count around."""
    x, places, _ = op.inputs
    result: Tensor = b.ops.FloorMod(places, rows(b, x))
    return result
