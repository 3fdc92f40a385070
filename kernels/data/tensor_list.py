"""Lists of tensors, their elements, and tensors made of lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.kernels.common.array_args import blank, brackets, element, integers, scalar, shape_of
from flowengine.kernels.data.tensor_list_value import (
    TensorList,
    check_element,
    check_length,
    initialized,
    list_in,
    merged,
    shape_argument,
)
from flowengine.kernels.registry import kernel

# Kernels that make lists of tensors and reach their single elements.


@kernel("EmptyTensorList", heavy=False, host=("element_shape", "max_num_elements"))
def empty_tensor_list(element_shape: Array, max_num_elements: Value, *, element_dtype: DType) -> TensorList:
    """A list without elements."""
    return TensorList(
        element_dtype, shape_argument(element_shape), (), scalar(max_num_elements, "max_num_elements")
    )


@kernel("TensorListReserve", heavy=False, host=("element_shape", "num_elements"))
def tensor_list_reserve(element_shape: Array, num_elements: Value, *, element_dtype: DType) -> TensorList:
    """A list of elements that are not initialized."""
    count = scalar(num_elements, "num_elements")
    if count < 0:
        raise InvalidArgumentError(f"The num_elements to reserve must be non negative, but got {count}")
    check_length(count)
    return TensorList(element_dtype, shape_argument(element_shape), [None] * count)


@kernel("TensorListPushBack", heavy=False)
def tensor_list_push_back(handle: Value, tensor: Value, *, element_dtype: DType) -> TensorList:
    """The list with a tensor at its end."""
    tensors = list_in(handle, element_dtype)
    check_element(tensors, tensor, "append")
    if 0 <= tensors.max_num_elements <= tensors.length:
        raise InvalidArgumentError(
            f"Tried to push item into a full list: list size {tensors.length}, "
            f"max_num_elements {tensors.max_num_elements}"
        )
    return tensors.pushed(tensor)


@kernel("TensorListPushBackBatch")
def tensor_list_push_back_batch(handles: Value, tensor: Array, *, element_dtype: DType) -> Value:
    """Row b of the tensor pushed onto list b, for a vector of lists."""
    lists = to_array(handles)
    if lists.ndim != 1 or not tensor.ndim or tensor.shape[0] != lists.size:
        raise InvalidArgumentError(
            f"Expected tensor.shape[0] == input_handles.size, but saw {brackets(shape_of(tensor))} "
            f"vs. {brackets(lists.shape)}"
        )
    out = np.empty(lists.shape, object)
    for i in range(lists.size):
        out[i] = tensor_list_push_back(lists[i], tensor[i], element_dtype=element_dtype)
    return out


@kernel("TensorListPopBack", heavy=False, host=("element_shape",))
def tensor_list_pop_back(
    handle: Value, element_shape: Array, *, element_dtype: DType
) -> tuple[TensorList, Value]:
    """(the list without its last element, that element)."""
    tensors = list_in(handle, element_dtype)
    if not tensors.length:
        raise InvalidArgumentError("Trying to pop from an empty list.")
    last = initialized(tensors, tensors.get(tensors.length - 1), shape_argument(element_shape))
    return tensors.shortened(tensors.length - 1), last


@kernel("TensorListLength", heavy=False, host=("length",))
def tensor_list_length(handle: Value) -> np.int32:
    """The number of elements."""
    return np.int32(list_in(handle).length)


@kernel("TensorListElementShape", heavy=False, host=("element_shape",))
def tensor_list_element_shape(handle: Value, *, shape_type: DType) -> Array:
    """Return the known shape of the elements: -1 for each unknown size."""
    dims = list_in(handle).element_shape.dims
    dtype = shape_type.as_numpy_dtype
    if dims is None:
        return np.array(-1, dtype)
    return np.array([-1 if d is None else d for d in dims], dtype)


@kernel("TensorListGetItem", heavy=False, host=("index", "element_shape"))
def tensor_list_get_item(handle: Value, index: Value, element_shape: Array, *, element_dtype: DType) -> Value:
    """One element; zeros where it was reserved and never set."""
    tensors = list_in(handle, element_dtype)
    tensor = tensors.get(int(index))
    return tensor if tensor is not None else initialized(tensors, None, shape_argument(element_shape))


@kernel("TensorListSetItem", heavy=False, host=("index",))
def tensor_list_set_item(
    handle: Value,
    index: Value,
    item: Value,
    *,
    element_dtype: DType,
    resize_if_index_out_of_bounds: bool = False,
) -> TensorList:
    """The list with one element replaced; one behind its end makes it longer where the attribute says so."""
    tensors = list_in(handle, element_dtype)
    place = int(index)
    if place >= tensors.length and resize_if_index_out_of_bounds:
        check_element(tensors, item, "set")
        check_length(place + 1)
        return tensors.lengthened([*[None] * (place - tensors.length), item])
    if not 0 <= place < tensors.length:
        raise InvalidArgumentError(
            f"Trying to modify element {place} in a list with {tensors.length} elements."
        )
    check_element(tensors, item, "set")
    return tensors.with_element(place, item)


@kernel("TensorListResize", heavy=False, host=("size",))
def tensor_list_resize(handle: Value, size: Value) -> TensorList:
    """The list cut, or lengthened by elements that are not initialized."""
    tensors = list_in(handle)
    count = scalar(size, "size")
    if count < 0:
        raise InvalidArgumentError(f"TensorListResize expects size to be non-negative. Got: {count}")
    check_length(count)
    if count <= tensors.length:
        return tensors.shortened(count)
    return tensors.lengthened([None] * (count - tensors.length))


@kernel("TensorListConcatLists", heavy=False)
def tensor_list_concat_lists(a: Value, b: Value, *, element_dtype: DType) -> Value:
    """List b behind list a, element by element for tensors of lists."""
    if shape_of(a) != shape_of(b):
        raise InvalidArgumentError(
            f"input_a and input_b must have one shape, not {brackets(shape_of(a))} "
            f"and {brackets(shape_of(b))}"
        )
    if shape_of(a):
        out = np.empty(a.shape, object)
        for i, (x, y) in enumerate(zip(a.flat, b.flat, strict=True)):
            out.flat[i] = tensor_list_concat_lists(x, y, element_dtype=element_dtype)
        return out
    first, second = list_in(a, element_dtype), list_in(b, element_dtype)
    if first.element_shape != second.element_shape:
        raise InvalidArgumentError(
            f"input_a and input_b TensorList element shapes are not identical: "
            f"{first.element_shape} vs. {second.element_shape}"
        )
    return first.lengthened(second.tensors())


# Kernels between a list of tensors and one tensor that holds its elements: stack, concat, split, ....


def _stack(tensors: list[Value], shape: TensorShape, dtype: np.dtype[Any], verb: str) -> Array:
    dims = [d or 0 for d in shape.as_list()]
    out = np.empty((len(tensors), *dims), dtype)
    for i, tensor in enumerate(tensors):
        if shape_of(tensor) != tuple(dims):
            raise InvalidArgumentError(
                f"Tried to {verb} elements with different shapes: {brackets(dims)} and "
                f"{brackets(shape_of(tensor))} (element {i})"
            )
        out[i] = element(tensor)
    return out


def _stacked(tensors: TensorList, items: list[Value | None], shape: TensorShape, verb: str) -> Array:
    """Elements in one tensor, zeros for those never set."""
    known = merged(tensors.element_shape, shape, f"{verb} a list")
    for item in items:
        if known.is_fully_defined:
            break
        if item is not None:
            known = merged(known, TensorShape(shape_of(item)), f"{verb} elements")
    if not known.is_fully_defined:
        what = "elements of an empty list" if not items else "a list of uninitialized tensors"
        raise InvalidArgumentError(f"Tried to {verb} {what} with non-fully-defined element_shape: {known}")
    dtype = tensors.element_dtype.as_numpy_dtype
    zero = blank(np, [d or 0 for d in known.as_list()], dtype)
    return _stack([zero if item is None else item for item in items], known, dtype, verb)


@kernel("TensorListStack", fresh=True, host=("element_shape",))
def tensor_list_stack(
    handle: Value, element_shape: Array, *, element_dtype: DType, num_elements: int
) -> Array:
    """(length, ...): the elements stacked; -1 or the expected length in `num_elements`."""
    tensors = list_in(handle, element_dtype)
    if num_elements not in (-1, tensors.length):
        raise InvalidArgumentError(
            f"Operation expected a list with {num_elements} elements but got a list with "
            f"{tensors.length} elements."
        )
    return _stacked(tensors, tensors.tensors(), shape_argument(element_shape), "stack")


@kernel("TensorListGather", fresh=True, host=("indices", "element_shape"))
def tensor_list_gather(handle: Value, indices: Array, element_shape: Array, *, element_dtype: DType) -> Array:
    """(count, ...): the elements at the indices, stacked."""
    tensors = list_in(handle, element_dtype)
    items: list[Value | None] = []
    for index in integers(indices, "indices"):
        if not 0 <= index < tensors.length:
            raise InvalidArgumentError(
                f"Index {index} out of range; list only has {tensors.length} elements."
            )
        items.append(tensors.get(index))
    return _stacked(tensors, items, shape_argument(element_shape), "gather")


def _rows(tensor: Value, shape: TensorShape) -> list[Value]:
    """The rows of a tensor, which must agree with the element shape."""
    if not shape_of(tensor):
        raise InvalidArgumentError("Tensor must be at least a vector, but is a scalar")
    if not TensorShape(tensor.shape[1:]).is_compatible_with(shape):
        raise InvalidArgumentError(
            f"Specified a list with shape {shape} from a tensor with shape {brackets(tensor.shape[1:])}"
        )
    return list(tensor)


@kernel("TensorListFromTensor", heavy=False, host=("element_shape",))
def tensor_list_from_tensor(tensor: Value, element_shape: Array, *, element_dtype: DType) -> TensorList:
    """A list of the rows of a tensor, as views."""
    shape = shape_argument(element_shape)
    return TensorList(element_dtype, shape, _rows(tensor, shape))


def _scattered(
    tensor: Value, indices: Array, shape: TensorShape, items: list[Value | None]
) -> list[Value | None]:
    """The rows of the tensor put into the list of items, lengthened where an index needs it."""
    places = integers(indices, "indices")
    rows = _rows(tensor, shape)
    if len(places) != len(rows):
        raise InvalidArgumentError(
            f"Invalid number of rows in input tensor. Expected: {len(places)} Actual: {len(rows)}"
        )
    for place, row in zip(places, rows, strict=True):
        if place < 0:
            raise InvalidArgumentError(
                f"Indices in TensorListScatter must all be non-negative, but there is {place}"
            )
        if place >= len(items):
            items.extend([None] * (place + 1 - len(items)))
        items[place] = row
    return items


@kernel("TensorListScatter", heavy=False, host=("indices", "element_shape"))
def tensor_list_scatter(
    tensor: Value, indices: Array, element_shape: Array, *, element_dtype: DType
) -> TensorList:
    """A list with row i of the tensor at indices[i], as long as the largest index demands."""
    shape = shape_argument(element_shape)
    return TensorList(element_dtype, shape, _scattered(tensor, indices, shape, []))


@kernel("TensorListScatterV2", heavy=False, host=("indices", "element_shape", "num_elements"))
def tensor_list_scatter_v2(
    tensor: Value, indices: Array, element_shape: Array, num_elements: Value, *, element_dtype: DType
) -> TensorList:
    """TensorListScatter into a list of `num_elements`, -1 for as many as needed."""
    shape = shape_argument(element_shape)
    count = scalar(num_elements, "num_elements")
    if count < -1:
        raise InvalidArgumentError(f"TensorListScatter expects num_elements >= -1, but found: {count}")
    if count >= 0 and indices.size and int(indices.max()) >= count:
        raise InvalidArgumentError(
            f"TensorListScatter: Trying to scatter at index {int(indices.max())} in list with size {count}"
        )
    return TensorList(element_dtype, shape, _scattered(tensor, indices, shape, [None] * max(count, 0)))


@kernel("TensorListScatterIntoExistingList", heavy=False, host=("indices",))
def tensor_list_scatter_into_existing_list(
    handle: Value, tensor: Value, indices: Array, *, element_dtype: DType
) -> TensorList:
    """The list with row i of the tensor at indices[i], lengthened where needed."""
    tensors = list_in(handle, element_dtype)
    return tensors.replaced(_scattered(tensor, indices, tensors.element_shape, tensors.tensors()))


def _concat(tensors: TensorList, shape: TensorShape, leading_dims: list[int]) -> tuple[Array, Array]:
    """The elements one after another along their first axis, and how long each was."""
    known = merged(tensors.element_shape, shape, "concat lists")
    rest = UNKNOWN_SHAPE if known.dims is None else TensorShape(known.dims[1:])
    if known.dims is not None and not known.dims:
        raise InvalidArgumentError("Concat requires elements to be at least vectors, found scalars instead.")
    items = tensors.tensors()
    for item in items:
        if item is not None:
            if not shape_of(item):
                raise InvalidArgumentError(
                    "Concat requires elements to be at least vectors, found scalars instead."
                )
            rest = merged(rest, TensorShape(shape_of(item)[1:]), "concat elements")
    if not rest.is_fully_defined:
        raise InvalidArgumentError(
            "All except the first dimension must be fully defined when concating an empty tensor list or "
            f"uninitialized tensors. element_shape: {known}"
        )
    dims = [d or 0 for d in rest.as_list()]
    dtype = tensors.element_dtype.as_numpy_dtype
    first = None if known.dims is None else known.dims[0]
    parts: list[Array] = []
    for i, item in enumerate(items):
        if item is None:
            size = leading_dims[i] if i < len(leading_dims) else first
            if size is None:
                raise InvalidArgumentError(
                    f"List contains uninitialized tensor at index {i} but leading_dims has only "
                    f"{len(leading_dims)} elements."
                )
            item = blank(np, (size, *dims), dtype)
        if first is not None and shape_of(item)[0] != first:
            raise InvalidArgumentError(
                f"Expected element {i} to have shape {known}, but it has {brackets(shape_of(item))}"
            )
        parts.append(item)
    lengths = np.array([len(p) for p in parts], np.int64)
    return (np.concatenate(parts) if parts else blank(np, (0, *dims), dtype)), lengths


@kernel("TensorListConcat", fresh=True)
def tensor_list_concat(
    handle: Value, *, element_dtype: DType, element_shape: TensorShape
) -> tuple[Array, Array]:
    """(the elements joined along their first axis, their lengths)."""
    return _concat(list_in(handle, element_dtype), element_shape, [])


@kernel("TensorListConcatV2", fresh=True, host=("element_shape", "leading_dims"))
def tensor_list_concat_v2(
    handle: Value, element_shape: Array, leading_dims: Array, *, element_dtype: DType
) -> tuple[Array, Array]:
    """TensorListConcat with the lengths of elements that were never set."""
    return _concat(
        list_in(handle, element_dtype), shape_argument(element_shape), integers(leading_dims, "leading_dims")
    )


@kernel("TensorListSplit", heavy=False, host=("element_shape", "lengths"))
def tensor_list_split(
    tensor: Value, element_shape: Array, lengths: Array, *, element_dtype: DType
) -> TensorList:
    """A list of consecutive parts of the tensor, with these lengths."""
    shape = shape_argument(element_shape)
    if not shape_of(tensor):
        raise InvalidArgumentError("Tensor must be at least a vector, but is a scalar")
    if shape.dims == ():
        raise InvalidArgumentError(
            "TensorListSplit requires element_shape to be at least of rank 1, but saw: []"
        )
    sizes = integers(lengths, "lengths")
    if sizes and min(sizes) < 0:
        raise InvalidArgumentError(f"Invalid value in lengths: {brackets(sizes)}")
    if sum(sizes) != len(tensor):
        raise InvalidArgumentError(
            f"Invalid lengths {brackets(sizes)}: they must add up to {len(tensor)}, the size of the tensor"
        )
    if shape.dims and not TensorShape(tensor.shape[1:]).is_compatible_with(TensorShape(shape.dims[1:])):
        raise InvalidArgumentError(
            f"tensor shape {brackets(tensor.shape)} is not compatible with element_shape {shape}"
        )
    parts: list[Value] = []
    start = 0
    for size in sizes:
        parts.append(tensor[start : start + size])
        start += size
    return TensorList(element_dtype, shape, parts)
