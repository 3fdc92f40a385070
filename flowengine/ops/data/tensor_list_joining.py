"""Lists of tensors made of one tensor, and joined to one."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, scalars, suffix, vector

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
