"""Lists of tensors held in variants."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, of_rank, scalars, suffix, vector

define(
    "EmptyTensorList",
    inputs=["element_shape: shape_type", "max_num_elements: int32"],
    outputs=["handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
    shape=scalars,
)
define(
    "TensorListReserve",
    inputs=["element_shape: shape_type", "num_elements: int32"],
    outputs=["handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
    shape=scalars,
)
define(
    "TensorListFromTensor",
    inputs=["tensor: element_dtype", "element_shape: shape_type"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
    shape=scalars,
)
define(
    "TensorListScatter",
    inputs=["tensor: element_dtype", "indices: int32", "element_shape: shape_type"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
    shape=scalars,
)
define(
    "TensorListScatterV2",
    inputs=["tensor: element_dtype", "indices: int32", "element_shape: shape_type", "num_elements: int32"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
    shape=scalars,
)
define(
    "TensorListScatterIntoExistingList",
    inputs=["input_handle: variant", "tensor: element_dtype", "indices: int32"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type"],
    shape=scalars,
)
define(
    "TensorListSetItem",
    inputs=["input_handle: variant", "index: int32", "item: element_dtype"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type"],
    shape=scalars,
)
define(
    "TensorListPushBack",
    inputs=["input_handle: variant", "tensor: element_dtype"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type"],
    shape=scalars,
)
define(
    "TensorListResize",
    inputs=["input_handle: variant", "size: int32"],
    outputs=["output_handle: variant"],
    is_stateful=True,
    shape=scalars,
)
define(
    "TensorListSplit",
    inputs=["tensor: element_dtype", "element_shape: shape_type", "lengths: int64"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
    shape=scalars,
)
define("TensorListLength", inputs=["input_handle: variant"], outputs=["length: int32"], shape=scalars)
define(
    "TensorListConcatLists",
    inputs=["input_a: variant", "input_b: variant"],
    outputs=["output: variant"],
    attrs=["element_dtype: type"],
    shape=scalars,
)
define(
    "TensorListPushBackBatch",
    inputs=["input_handles: variant", "tensor: element_dtype"],
    outputs=["output_handles: variant"],
    attrs=["element_dtype: type"],
    shape=of_rank(1),
)


def element_shape(c: ShapeContext) -> Sequence[TensorShape]:
    # A vector, or the scalar -1 for an unknown rank.
    return [UNKNOWN_SHAPE]


define(
    "TensorListElementShape",
    inputs=["input_handle: variant"],
    outputs=["element_shape: shape_type"],
    attrs=["shape_type: {int32, int64}"],
    shape=element_shape,
)


def get_item(c: ShapeContext) -> Sequence[TensorShape]:
    return [c.input_as_shape(2)]


define(
    "TensorListGetItem",
    inputs=["input_handle: variant", "index: int32", "element_shape: int32"],
    outputs=["item: element_dtype"],
    attrs=["element_dtype: type"],
    shape=get_item,
)


def pop_back(c: ShapeContext) -> Sequence[TensorShape]:
    return [SCALAR, c.input_as_shape(1)]


define(
    "TensorListPopBack",
    inputs=["input_handle: variant", "element_shape: int32"],
    outputs=["output_handle: variant", "tensor: element_dtype"],
    attrs=["element_dtype: type"],
    shape=pop_back,
)


def stack(c: ShapeContext) -> Sequence[TensorShape]:
    """(elements, element...)"""
    count: int = c.attrs["num_elements"]
    return [vector(count if count >= 0 else None).concatenate(c.input_as_shape(1))]


define(
    "TensorListStack",
    inputs=["input_handle: variant", "element_shape: int32"],
    outputs=["tensor: element_dtype"],
    attrs=["element_dtype: type", "num_elements: int = -1"],
    shape=stack,
)


def gather(c: ShapeContext) -> Sequence[TensorShape]:
    """(indices, element...)"""
    return [vector(c.input(1).num_elements()).concatenate(c.input_as_shape(2))]


define(
    "TensorListGather",
    inputs=["input_handle: variant", "indices: int32", "element_shape: int32"],
    outputs=["values: element_dtype"],
    attrs=["element_dtype: type"],
    shape=gather,
)


def concat(c: ShapeContext) -> Sequence[TensorShape]:
    return [VECTOR.concatenate(suffix(c.attrs["element_shape"], 1)), VECTOR]


define(
    "TensorListConcat",
    inputs=["input_handle: variant"],
    outputs=["tensor: element_dtype", "lengths: int64"],
    attrs=["element_dtype: type", "element_shape: shape = unknown"],
    shape=concat,
)


def concat_input(c: ShapeContext) -> Sequence[TensorShape]:
    return [VECTOR.concatenate(suffix(c.input_as_shape(1), 1)), VECTOR]


define(
    "TensorListConcatV2",
    inputs=["input_handle: variant", "element_shape: shape_type", "leading_dims: int64"],
    outputs=["tensor: element_dtype", "lengths: int64"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
    shape=concat_input,
)
