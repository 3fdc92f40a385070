"""Sparse tensors split, sliced, reordered and filled: each entry's gradient goes where it came from."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


def numbers_of(b: Backward, indices: Tensor) -> Tensor:
    """A number for each entry: 0, 1, 2 ..."""
    count = b.ops.StridedSlice(b.shape(indices, "int64"), [0], [1], [1], shrink_axis_mask=1)
    result: Tensor = b.ops.Range(np.int64(0), count, np.int64(1))
    return result


def _put_back(b: Backward, grad: Tensor, order: Tensor) -> Tensor:
    """The gradient of entries of which `order` says where each one of the result came from."""
    result: Tensor = b.ops.GatherV2(grad, b.ops.InvertPermutation(order), np.int32(0))
    return result


@gradient("SparseReorder", lazy=True)
def sparse_reorder(b: Backward, op: Operation, of_indices: None, grad: Tensor | None) -> Results:
    """The numbers of the entries are put in order as the entries were."""
    if grad is None:
        return [None] * 3
    indices, _, shape = op.inputs
    order = b.ops.SparseReorder(indices, numbers_of(b, indices), shape).output_values
    return [None, _put_back(b, grad, order), None]


@gradient("SparseSplit")
def sparse_split(b: Backward, op: Operation, *grads: Tensor) -> Results:
    """As of `SparseReorder`: the parts one after another are all entries, in another order."""
    axis, indices, _, shape = op.inputs
    count = op.get_attr("num_split")
    _, numbers, _ = b.ops.SparseSplit(axis, indices, numbers_of(b, indices), shape, num_split=count)
    of_values = grads[count : 2 * count]
    if count == 1:
        return [None, None, _put_back(b, of_values[0], numbers[0]), None]
    whole = b.ops.ConcatV2(list(of_values), np.int32(0))
    return [None, None, _put_back(b, whole, b.ops.ConcatV2(list(numbers), np.int32(0))), None]


@gradient("SparseSlice", lazy=True)
def sparse_slice(
    b: Backward, op: Operation, of_indices: None, grad: Tensor | None, of_shape: None
) -> Results:
    if grad is None:
        return [None] * 5
    indices, _, _, start, _ = op.inputs
    return [None, b.ops.SparseSliceGrad(grad, indices, start, op.outputs[0]), None, None, None]


@gradient("SparseSliceGrad")
def sparse_slice_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Pick the gradient of each entry of the slice at its index in the whole."""
    _, indices, start, taken = op.inputs
    wanted = b.ops.AddV2(taken, start)
    return [b.ops.SparseAddGrad(grad, wanted, wanted, indices).a_val_grad, None, None, None]


@gradient("SparseFillEmptyRows", lazy=True)
def fill_empty_rows(
    b: Backward,
    op: Operation,
    of_indices: None,
    grad: Tensor | None,
    of_indicator: None,
    of_map: None,
) -> Results:
    """The default value gets the sum of what the rows have that it filled."""
    if grad is None:
        return [None] * 4
    found = b.ops.SparseFillEmptyRowsGrad(op.outputs[3], grad)
    return [None, found.d_values, None, found.d_default_value]


@gradient("SparseFillEmptyRowsGrad")
def fill_empty_rows_grad(b: Backward, op: Operation, of_values: Tensor, of_default: Tensor) -> Results:
    """The entries' gradients where they stood, and the default's in all other places."""
    places, grads = op.inputs
    filled = b.ops.Fill(b.shape(grads), of_default)
    return [
        None,
        b.ops.TensorScatterUpdate(filled, b.ops.ExpandDims(places, np.int32(1)), of_values),
    ]
