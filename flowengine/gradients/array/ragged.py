"""Gradients of rows of different lengths, and the dense tensors they are padded to."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import from_element, integer, integers, rank, rows, sum_like
from flowengine.gradients.values import Gradient, IndexedSlices, Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of rows of different length: of their values, never of where the rows end.


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


# Gradients of rows of different length padded to one.


@gradient("RaggedTensorToTensor")
def to_tensor(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each value what its place has, to the default the sum of the places where there is no value.

    Which value went where is found by padding the numbers of the values in the same way.
    """
    _, values, default, *partitions = op.inputs
    places = _places(b, op)
    of_values = b.ops.UnsortedSegmentSum(grad, places, rows(b, values))
    is_empty = b.ops.Less(places, b.constant(0, places.dtype))
    # One sum of all that is empty: numbers of -1 count nowhere.
    row = b.ops.Sub(b.ops.Cast(is_empty, DstT=places.dtype), b.constant(1, places.dtype))
    of_empty = b.ops.UnsortedSegmentSum(grad, row, integer(b, 1))
    inner = b.ops.Reshape(of_empty, from_element(b, b.shape(values), 1))
    return [None, of_values, sum_like(b, inner, default), *[None] * len(partitions)]


def _places(b: Backward, op: Operation) -> Tensor:
    """The number of the value at each place of the output without inner axes; -1 where there is none."""
    _, values, _, *partitions = op.inputs
    y = op.outputs[0]
    sizes = b.shape(y)
    outer = b.ops.Sub(rank(b, y), b.ops.Sub(rank(b, values), integer(b, 1)))
    shape = b.ops.Slice(sizes, integers(b, 0), b.ops.Reshape(outer, integers(b, 1)))
    numbers = b.ops.Range(integer(b, 0), rows(b, values), integer(b, 1))
    result: Tensor = b.ops.RaggedTensorToTensor(
        shape,
        numbers,
        b.constant(np.array(-1, np.int32)),
        partitions,
        row_partition_types=op.get_attr("row_partition_types"),
    )
    return result
