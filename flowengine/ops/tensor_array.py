"""TensorArrays, in their three versions."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "TensorArray",
    inputs=["size: int32"],
    outputs=["handle: Ref(string)"],
    attrs=[
        "dtype: type",
        "dynamic_size: bool = false",
        "clear_after_read: bool = true",
        'tensor_array_name: string = ""',
        "element_shape: shape = unknown",
    ],
    is_stateful=True,
)
define("TensorArrayClose", inputs=["handle: Ref(string)"])
define("TensorArrayCloseV2", inputs=["handle: string"])
define("TensorArrayCloseV3", inputs=["handle: resource"], is_stateful=True)
define(
    "TensorArrayConcat",
    inputs=["handle: Ref(string)", "flow_in: float"],
    outputs=["value: dtype", "lengths: int64"],
    attrs=["dtype: type", "element_shape_except0: shape = unknown"],
)
define(
    "TensorArrayConcatV2",
    inputs=["handle: string", "flow_in: float"],
    outputs=["value: dtype", "lengths: int64"],
    attrs=["dtype: type", "element_shape_except0: shape = unknown"],
)
define(
    "TensorArrayConcatV3",
    inputs=["handle: resource", "flow_in: float"],
    outputs=["value: dtype", "lengths: int64"],
    attrs=["dtype: type", "element_shape_except0: shape = unknown"],
    is_stateful=True,
)
define(
    "TensorArrayGather",
    inputs=["handle: Ref(string)", "indices: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type", "element_shape: shape = unknown"],
)
define(
    "TensorArrayGatherV2",
    inputs=["handle: string", "indices: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type", "element_shape: shape = unknown"],
)
define(
    "TensorArrayGatherV3",
    inputs=["handle: resource", "indices: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type", "element_shape: shape = unknown"],
    is_stateful=True,
)
define(
    "TensorArrayGrad",
    inputs=["handle: string", "flow_in: float"],
    outputs=["grad_handle: Ref(string)"],
    attrs=["source: string"],
    is_stateful=True,
)
define(
    "TensorArrayGradV2",
    inputs=["handle: string", "flow_in: float"],
    outputs=["grad_handle: string"],
    attrs=["source: string"],
    is_stateful=True,
)
define(
    "TensorArrayGradV3",
    inputs=["handle: resource", "flow_in: float"],
    outputs=["grad_handle: resource", "flow_out: float"],
    attrs=["source: string"],
    is_stateful=True,
)
define(
    "TensorArrayGradWithShape",
    inputs=["handle: resource", "flow_in: float", "shape_to_prepend: int32"],
    outputs=["grad_handle: resource", "flow_out: float"],
    attrs=["source: string"],
    is_stateful=True,
)
define(
    "TensorArrayPack",
    inputs=["handle: Ref(string)", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type", "element_shape: shape = unknown"],
)
define(
    "TensorArrayRead",
    inputs=["handle: Ref(string)", "index: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
)
define(
    "TensorArrayReadV2",
    inputs=["handle: string", "index: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
)
define(
    "TensorArrayReadV3",
    inputs=["handle: resource", "index: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    is_stateful=True,
)
define(
    "TensorArrayScatter",
    inputs=["handle: Ref(string)", "indices: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
)
define(
    "TensorArrayScatterV2",
    inputs=["handle: string", "indices: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
)
define(
    "TensorArrayScatterV3",
    inputs=["handle: resource", "indices: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    is_stateful=True,
)
define("TensorArraySize", inputs=["handle: Ref(string)", "flow_in: float"], outputs=["size: int32"])
define("TensorArraySizeV2", inputs=["handle: string", "flow_in: float"], outputs=["size: int32"])
define(
    "TensorArraySizeV3",
    inputs=["handle: resource", "flow_in: float"],
    outputs=["size: int32"],
    is_stateful=True,
)
define(
    "TensorArraySplit",
    inputs=["handle: Ref(string)", "value: T", "lengths: int64", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
)
define(
    "TensorArraySplitV2",
    inputs=["handle: string", "value: T", "lengths: int64", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
)
define(
    "TensorArraySplitV3",
    inputs=["handle: resource", "value: T", "lengths: int64", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    is_stateful=True,
)
define(
    "TensorArrayUnpack",
    inputs=["handle: Ref(string)", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
)
define(
    "TensorArrayV2",
    inputs=["size: int32"],
    outputs=["handle: string"],
    attrs=[
        "dtype: type",
        "element_shape: shape = unknown",
        "dynamic_size: bool = false",
        "clear_after_read: bool = true",
        'tensor_array_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "TensorArrayV3",
    inputs=["size: int32"],
    outputs=["handle: resource", "flow: float"],
    attrs=[
        "dtype: type",
        "element_shape: shape = unknown",
        "dynamic_size: bool = false",
        "clear_after_read: bool = true",
        "identical_element_shapes: bool = false",
        'tensor_array_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "TensorArrayWrite",
    inputs=["handle: Ref(string)", "index: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
)
define(
    "TensorArrayWriteV2",
    inputs=["handle: string", "index: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
)
define(
    "TensorArrayWriteV3",
    inputs=["handle: resource", "index: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    is_stateful=True,
)
