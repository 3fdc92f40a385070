"""Gradients of lists made of one tensor, and of one tensor made of a list."""

from __future__ import annotations

from flowengine.gradients.data.tensor_list import element_shape, length
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


def _row_shape(b: Backward, tensor: Tensor) -> Tensor:
    """The shape of a row of a tensor, int32."""
    dims = tensor.shape.dims
    if dims is not None and None not in dims[1:]:
        return b.constant([d for d in dims[1:] if d is not None], "int32")
    shape: Tensor = b.ops.StridedSlice(b.shape(tensor), [1], [0], [1], end_mask=1)
    return shape


@gradient("TensorListFromTensor")
def from_tensor(b: Backward, op: Operation, grad: Tensor) -> Results:
    tensor = op.inputs[0]
    rows = None if tensor.shape.dims is None else tensor.shape.dims[0]
    stacked = b.ops.TensorListStack(
        grad,
        _row_shape(b, tensor),
        element_dtype=tensor.dtype.base,
        num_elements=-1 if rows is None else rows,
    )
    return [stacked, None]


@gradient("TensorListStack")
def stack(b: Backward, op: Operation, grad: Tensor) -> Results:
    shape = element_shape(b, op.inputs[0]) if grad.shape.rank is None else _row_shape(b, grad)
    return [b.ops.TensorListFromTensor(grad, shape), None]


@gradient("TensorListGather")
def gather(b: Backward, op: Operation, grad: Tensor) -> Results:
    """An element that was taken several times gets the sum of its gradients."""
    items, indices, _ = op.inputs
    if grad.dtype.base.name == "variant":
        scattered = b.ops.TensorListScatterV2(grad, indices, element_shape(b, items), length(b, items))
        return [scattered, None, None]
    rows = b.ops.UnsortedSegmentSum(grad, indices, length(b, items))
    return [b.ops.TensorListFromTensor(rows, element_shape(b, items)), None, None]


@gradient("TensorListScatter", "TensorListScatterV2")
def scatter(b: Backward, op: Operation, grad: Tensor) -> Results:
    tensor, indices = op.inputs[:2]
    rows = b.ops.TensorListGather(grad, indices, _row_shape(b, tensor), element_dtype=tensor.dtype.base)
    return [rows] + [None] * (len(op.inputs) - 1)


@gradient("TensorListScatterIntoExistingList")
def scatter_into(b: Backward, op: Operation, grad: Tensor) -> Results:
    _, tensor, indices = op.inputs
    kept = b.ops.TensorListScatterIntoExistingList(grad, b.zeros_like(tensor), indices)
    rows = b.ops.TensorListGather(grad, indices, _row_shape(b, tensor), element_dtype=tensor.dtype.base)
    return [kept, rows, None]


@gradient("TensorListConcat", "TensorListConcatV2", lazy=True)
def concat(b: Backward, op: Operation, grad: Tensor | None, lengths: None) -> Results:
    others = [None] * (len(op.inputs) - 1)
    if grad is None:
        return [None, *others]
    return [b.ops.TensorListSplit(grad, element_shape(b, op.inputs[0]), op.outputs[1]), *others]


@gradient("TensorListSplit")
def split(b: Backward, op: Operation, grad: Tensor) -> Results:
    tensor, _, lengths = op.inputs
    shape = b.ops.ConcatV2([b.constant([-1], "int32"), _row_shape(b, tensor)], b.constant(0))
    joined = b.ops.TensorListConcatV2(grad, shape, lengths, element_dtype=tensor.dtype.base)
    return [joined.tensor, None, None]
