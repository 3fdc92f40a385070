"""Lists of tensors held in variants."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "EmptyTensorList",
    inputs=["element_shape: shape_type", "max_num_elements: int32"],
    outputs=["handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
)
define(
    "TensorListConcat",
    inputs=["input_handle: variant"],
    outputs=["tensor: element_dtype", "lengths: int64"],
    attrs=["element_dtype: type", "element_shape: shape = unknown"],
)
define(
    "TensorListConcatLists",
    inputs=["input_a: variant", "input_b: variant"],
    outputs=["output: variant"],
    attrs=["element_dtype: type"],
)
define(
    "TensorListConcatV2",
    inputs=["input_handle: variant", "element_shape: shape_type", "leading_dims: int64"],
    outputs=["tensor: element_dtype", "lengths: int64"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
)
define(
    "TensorListElementShape",
    inputs=["input_handle: variant"],
    outputs=["element_shape: shape_type"],
    attrs=["shape_type: {int32, int64}"],
)
define(
    "TensorListFromTensor",
    inputs=["tensor: element_dtype", "element_shape: shape_type"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
)
define(
    "TensorListGather",
    inputs=["input_handle: variant", "indices: int32", "element_shape: int32"],
    outputs=["values: element_dtype"],
    attrs=["element_dtype: type"],
)
define(
    "TensorListGetItem",
    inputs=["input_handle: variant", "index: int32", "element_shape: int32"],
    outputs=["item: element_dtype"],
    attrs=["element_dtype: type"],
)
define("TensorListLength", inputs=["input_handle: variant"], outputs=["length: int32"])
define(
    "TensorListPopBack",
    inputs=["input_handle: variant", "element_shape: int32"],
    outputs=["output_handle: variant", "tensor: element_dtype"],
    attrs=["element_dtype: type"],
)
define(
    "TensorListPushBack",
    inputs=["input_handle: variant", "tensor: element_dtype"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type"],
)
define(
    "TensorListPushBackBatch",
    inputs=["input_handles: variant", "tensor: element_dtype"],
    outputs=["output_handles: variant"],
    attrs=["element_dtype: type"],
)
define(
    "TensorListReserve",
    inputs=["element_shape: shape_type", "num_elements: int32"],
    outputs=["handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
)
define(
    "TensorListResize",
    inputs=["input_handle: variant", "size: int32"],
    outputs=["output_handle: variant"],
    is_stateful=True,
)
define(
    "TensorListScatter",
    inputs=["tensor: element_dtype", "indices: int32", "element_shape: shape_type"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
)
define(
    "TensorListScatterIntoExistingList",
    inputs=["input_handle: variant", "tensor: element_dtype", "indices: int32"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type"],
)
define(
    "TensorListScatterV2",
    inputs=["tensor: element_dtype", "indices: int32", "element_shape: shape_type", "num_elements: int32"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
)
define(
    "TensorListSetItem",
    inputs=["input_handle: variant", "index: int32", "item: element_dtype"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type"],
)
define(
    "TensorListSplit",
    inputs=["tensor: element_dtype", "element_shape: shape_type", "lengths: int64"],
    outputs=["output_handle: variant"],
    attrs=["element_dtype: type", "shape_type: {int32, int64}"],
)
define(
    "TensorListStack",
    inputs=["input_handle: variant", "element_shape: int32"],
    outputs=["tensor: element_dtype"],
    attrs=["element_dtype: type", "num_elements: int = -1"],
)
