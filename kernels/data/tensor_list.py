"""Kernels that make lists of tensors and reach their single elements."""

from __future__ import annotations

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, scalar, shape_of
from flowengine.kernels.data.tensor_list_value import (
    TensorList,
    check_element,
    check_length,
    initialized,
    list_in,
    shape_argument,
)
from flowengine.kernels.registry import kernel


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
    """What is known of the elements' shape: -1 for what is not."""
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
