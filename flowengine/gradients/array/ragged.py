"""Gradients of rows of different length: of their values, never of where the rows end."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, rows
from flowengine.gradients.values import Backward, Gradient, IndexedSlices, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("RaggedTensorToSparse", lazy=True)
def to_sparse(
    b: Backward, op: Operation, _indices: Gradient | None, grad: Tensor | None, _shape: Gradient | None
) -> Results:
    """g in the shape of the values, which are the same in the same order"""
    values = op.inputs[-1]
    result = None if grad is None else b.ops.Reshape(grad, b.shape(values))
    return [*[None] * (len(op.inputs) - 1), result]


@gradient("RaggedGather", lazy=True)
def ragged_gather(b: Backward, op: Operation, *grads: Tensor | None) -> Results:
    """g as slices of the values, at the places that the values came from: their numbers are gathered, too"""
    *splits, values, indices = op.inputs
    grad = grads[-1]
    if grad is None:
        return [None] * len(op.inputs)
    numbers = b.ops.Range(integer(b, 0), rows(b, values), integer(b, 1))
    gathered = b.ops.RaggedGather(
        splits, numbers, indices, OUTPUT_RAGGED_RANK=op.get_attr("OUTPUT_RAGGED_RANK")
    )
    slices = IndexedSlices(grad, gathered[-1], b.shape(values))
    return [*[None] * len(splits), slices, None]


@gradient("RaggedFillEmptyRows", lazy=True)
def fill_empty_rows(b: Backward, op: Operation, *grads: Tensor | None) -> Results:
    """To each value what its place has, to the default the sum of the rest"""
    grad = grads[1]
    if grad is None:
        return [None] * 4
    found = b.ops.RaggedFillEmptyRowsGrad(op.outputs[3], grad)
    return [None, found[0], None, found[1]]


@gradient("RaggedFillEmptyRowsGrad")
def fill_empty_rows_grad(b: Backward, op: Operation, of_values: Tensor, of_default: Tensor) -> Results:
    """The values again, and the default where there are none"""
    places, before = op.inputs
    filled = b.ops.Fill(b.shape(before), of_default)
    column = b.ops.Reshape(places, integers(b, -1, 1))
    return [None, b.ops.TensorScatterUpdate(filled, column, of_values)]
