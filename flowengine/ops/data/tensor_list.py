"""Lists of tensors, their elements, and tensors made of lists."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, of_rank, scalars, suffix, vector

# Lists of tensors as values, and their single elements.

define(
    "EmptyTensorList(element_shape: shape_type, max_num_elements: int32) -> handle: variant",
    "element_dtype: type; shape_type: indextype",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorListReserve(element_shape: shape_type, num_elements: int32) -> handle: variant",
    "element_dtype: type; shape_type: indextype",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorListSetItem(input_handle: variant, index: int32, item: element_dtype) -> output_handle: variant",
    "element_dtype: type; resize_if_index_out_of_bounds: bool = false",
    Newer(("resize_if_index_out_of_bounds",)),
    shape=scalars,
)
define(
    "TensorListPushBack(input_handle: variant, tensor: element_dtype) -> output_handle: variant",
    "element_dtype: type",
    shape=scalars,
)
define(
    "TensorListResize(input_handle: variant, size: int32) -> output_handle: variant",
    "stateful",
    shape=scalars,
)
define("TensorListLength(input_handle: variant) -> length: int32", NotDifferentiable(), shape=scalars)
define(
    "TensorListConcatLists(input_a, input_b: variant) -> output: variant",
    "element_dtype: type",
    shape=scalars,
)
define(
    "TensorListPushBackBatch(input_handles: variant, tensor: element_dtype) -> output_handles: variant",
    "element_dtype: type",
    shape=of_rank(1),
)


@define(
    "TensorListElementShape(input_handle: variant) -> element_shape: shape_type",
    "shape_type: indextype",
    NotDifferentiable(),
)
def element_shape(c: ShapeContext) -> Shapes:
    # A vector, or the scalar -1 for an unknown rank.
    return [UNKNOWN_SHAPE]


@define(
    "TensorListGetItem(input_handle: variant, index: int32, element_shape: Tshape) -> item: element_dtype",
    "element_dtype: type; Tshape: indextype = int32",
    Newer(("Tshape",)),
)
def get_item(c: ShapeContext) -> Shapes:
    return [c.input_as_shape(2)]


@define(
    "TensorListPopBack(input_handle: variant, element_shape: int32) "
    "-> output_handle: variant, tensor: element_dtype",
    "element_dtype: type",
)
def pop_back(c: ShapeContext) -> Shapes:
    return [SCALAR, c.input_as_shape(1)]


# Lists of tensors made of one tensor, and joined to one.

define(
    "TensorListFromTensor(tensor: element_dtype, element_shape: shape_type) -> output_handle: variant",
    "element_dtype: type; shape_type: indextype",
    shape=scalars,
)
define(
    "TensorListScatter(tensor: element_dtype, indices: int32, element_shape: shape_type) "
    "-> output_handle: variant",
    "element_dtype: type; shape_type: indextype",
    shape=scalars,
)
define(
    "TensorListScatterV2(tensor: element_dtype, indices: int32, element_shape: shape_type, "
    "num_elements: int32) -> output_handle: variant",
    "element_dtype: type; shape_type: indextype",
    shape=scalars,
)
define(
    "TensorListScatterIntoExistingList(input_handle: variant, tensor: element_dtype, indices: int32) "
    "-> output_handle: variant",
    "element_dtype: type",
    shape=scalars,
)
define(
    "TensorListSplit(tensor: element_dtype, element_shape: shape_type, lengths: int64) "
    "-> output_handle: variant",
    "element_dtype: type; shape_type: indextype",
    shape=scalars,
)


@define(
    "TensorListStack(input_handle: variant, element_shape: int32) -> tensor: element_dtype",
    "element_dtype: type; num_elements: int = -1",
)
def stack(c: ShapeContext) -> Shapes:
    """(elements, element...)"""
    count: int = c.attrs["num_elements"]
    return [vector(count if count >= 0 else None).concatenate(c.input_as_shape(1))]


@define(
    "TensorListGather(input_handle: variant, indices, element_shape: int32) -> values: element_dtype",
    "element_dtype: type",
)
def gather(c: ShapeContext) -> Shapes:
    """(indices, element...)"""
    return [vector(c.input(1).num_elements()).concatenate(c.input_as_shape(2))]


@define(
    "TensorListConcat(input_handle: variant) -> tensor: element_dtype, lengths: int64",
    "element_dtype: type; element_shape: shape = unknown",
)
def concat(c: ShapeContext) -> Shapes:
    return [VECTOR.concatenate(suffix(c.attrs["element_shape"], 1)), VECTOR]


@define(
    "TensorListConcatV2(input_handle: variant, element_shape: shape_type, leading_dims: int64) "
    "-> tensor: element_dtype, lengths: int64",
    "element_dtype: type; shape_type: indextype",
)
def concat_input(c: ShapeContext) -> Shapes:
    return [VECTOR.concatenate(suffix(c.input_as_shape(1), 1)), VECTOR]
