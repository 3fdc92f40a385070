"""Gradients of rows that are written over or added to."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, rows
from flowengine.gradients.values import Results
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
    rest = b.ops.TensorScatterUpdate(_with_rows(b, op, grad), column, b.ops.ZerosLike(values))
    if not _has_rows(op):
        rest = b.ops.Slice(rest, b.ops.ZerosLike(b.shape(grad)), b.shape(grad))
    return [rest, None, _rows(b, op, grad)]


def _rows(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    """Those rows that were written to, of the shape of the values."""
    found = b.ops.GatherV2(_with_rows(b, op, grad), _wrapped(b, op), integer(b, 0))
    result: Tensor = b.ops.Reshape(found, b.shape(op.inputs[2]))
    return result


def _has_rows(op: Operation) -> bool:
    """Whether it is known that there is a row to write to."""
    dims = op.inputs[0].shape.dims
    return bool(dims and dims[0])


def _with_rows(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    """The gradient; where there may be no rows at all, those of the values follow it, of zeros."""
    if _has_rows(op):
        return grad
    result: Tensor = b.ops.ConcatV2([grad, b.ops.ZerosLike(op.inputs[2])], integer(b, 0))
    return result


def _wrapped(b: Backward, op: Operation) -> Tensor:
    """The numbers of the rows; negative ones and those behind the end count around."""
    x, places, _ = op.inputs
    # Of no rows none is written to, and by none nothing is divided.
    result: Tensor = b.ops.FloorMod(places, b.ops.Maximum(rows(b, x), integer(b, 1)))
    return result
