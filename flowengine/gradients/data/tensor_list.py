"""Gradients of lists of tensors, their elements, and tensors made of lists."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.errors import GradientValueError
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of lists of tensors, which are values: the gradient of a list is a list of gradients.


def element_shape(b: Backward, items: Tensor) -> Tensor:
    """The shape of the elements of a forward list, int32."""
    return b.region.computed_forward(items, "TensorListElementShape", shape_type="int32")


def length(b: Backward, items: Tensor) -> Tensor:
    """How many elements a forward list has."""
    return b.region.computed_forward(items, "TensorListLength")


@gradient("TensorListPushBack")
def push_back(b: Backward, op: Operation, grad: Tensor) -> Results:
    item = op.inputs[1]
    popped = b.ops.TensorListPopBack(grad, b.shape(item), element_dtype=item.dtype.base)
    return [popped.output_handle, popped.tensor]


@gradient("TensorListPopBack", lazy=True)
def pop_back(b: Backward, op: Operation, items: Tensor | None, item: Tensor | None) -> Results:
    if items is None:
        items = b.zeros_like(op.outputs[0])
    if item is None:
        item = b.zeros_like(op.outputs[1])
    return [b.ops.TensorListPushBack(items, item), None]


@gradient("TensorListPushBackBatch")
def push_back_batch(b: Backward, op: Operation, grads: Tensor) -> Results:
    """The element that each list was given last."""
    lists, items = op.inputs
    if lists.shape.rank != 1 or lists.shape[0] is None:
        raise GradientValueError(
            f"TensorListPushBackBatch '{op.name}': the number of lists must be known, they are {lists.shape}"
        )
    count = lists.shape[0]
    popped = [
        b.ops.TensorListPopBack(
            each,
            b.ops.StridedSlice(b.shape(items), [1], [0], [1], end_mask=1),
            element_dtype=items.dtype.base,
        )
        for each in b.ops.Unpack(grads, num=count)
    ]
    return [
        b.ops.Pack([each.output_handle for each in popped]),
        b.ops.Pack([each.tensor for each in popped]),
    ]


@gradient("TensorListGetItem")
def get_item(b: Backward, op: Operation, grad: Tensor) -> Results:
    """A list in which only the element that was taken is not zero."""
    items, index, _ = op.inputs
    empty = b.ops.TensorListReserve(element_shape(b, items), length(b, items), element_dtype=grad.dtype.base)
    return [b.ops.TensorListSetItem(empty, index, grad), None, None]


@gradient("TensorListSetItem")
def set_item(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Clear the list's gradient at the replaced element, which has no part in the list."""
    _, index, item = op.inputs
    before = b.ops.TensorListSetItem(grad, index, b.zeros_like(item))
    given = b.ops.TensorListGetItem(grad, index, b.shape(item), element_dtype=item.dtype.base)
    return [before, None, given]


@gradient("TensorListResize")
def resize(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.TensorListResize(grad, length(b, op.inputs[0])), None]


@gradient("TensorListConcatLists")
def concat_lists(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The first elements belong to the first list, the others to the second."""
    first = op.inputs[0]
    dtype = op.get_attr("element_dtype")
    shape, split, total = element_shape(b, first), length(b, first), length(b, op.outputs[0])
    step = b.constant(1)
    parts = []
    for start, stop in ((b.constant(0), split), (split, total)):
        indices = b.ops.Range(start, stop, step)
        rows = b.ops.TensorListGather(grad, indices, shape, element_dtype=dtype)
        parts.append(b.ops.TensorListFromTensor(rows, shape, element_dtype=dtype))
    return parts


# Gradients of lists made of one tensor, and of one tensor made of a list.


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
