"""TensorArrays, in their three versions."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, check_scalars, ranked, scalars, two_strings, vector

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
    shape=scalars,
)
define(
    "TensorArrayGradV3",
    inputs=["handle: resource", "flow_in: float"],
    outputs=["grad_handle: resource", "flow_out: float"],
    attrs=["source: string"],
    is_stateful=True,
    shape=scalars,
)
define(
    "TensorArrayGradWithShape",
    inputs=["handle: resource", "flow_in: float", "shape_to_prepend: int32"],
    outputs=["grad_handle: resource", "flow_out: float"],
    attrs=["source: string"],
    is_stateful=True,
    shape=scalars,
)
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
    shape=two_strings,
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
    shape=two_strings,
)
define(
    "TensorArrayGrad",
    inputs=["handle: string", "flow_in: float"],
    outputs=["grad_handle: Ref(string)"],
    attrs=["source: string"],
    is_stateful=True,
    shape=two_strings,
)
define(
    "TensorArrayGradV2",
    inputs=["handle: string", "flow_in: float"],
    outputs=["grad_handle: string"],
    attrs=["source: string"],
    is_stateful=True,
    shape=two_strings,
)


def flow(c: ShapeContext) -> Sequence[TensorShape]:
    """The flow, a scalar that orders reads after writes."""
    check_scalars(c, c.num_inputs - 1)
    return [SCALAR]


define(
    "TensorArrayWrite",
    inputs=["handle: Ref(string)", "index: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=flow,
)
define(
    "TensorArrayWriteV2",
    inputs=["handle: string", "index: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=flow,
)
define(
    "TensorArrayWriteV3",
    inputs=["handle: resource", "index: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    is_stateful=True,
    shape=flow,
)
define(
    "TensorArrayScatter",
    inputs=["handle: Ref(string)", "indices: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=flow,
)
define(
    "TensorArrayScatterV2",
    inputs=["handle: string", "indices: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=flow,
)
define(
    "TensorArrayScatterV3",
    inputs=["handle: resource", "indices: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    is_stateful=True,
    shape=flow,
)
define(
    "TensorArraySplit",
    inputs=["handle: Ref(string)", "value: T", "lengths: int64", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=flow,
)
define(
    "TensorArraySplitV2",
    inputs=["handle: string", "value: T", "lengths: int64", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=flow,
)
define(
    "TensorArraySplitV3",
    inputs=["handle: resource", "value: T", "lengths: int64", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    is_stateful=True,
    shape=flow,
)
define(
    "TensorArrayUnpack",
    inputs=["handle: Ref(string)", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=flow,
)


def read(c: ShapeContext) -> Sequence[TensorShape]:
    check_scalars(c, 1, 2)
    return [_element(c)]


def _element(c: ShapeContext) -> TensorShape:
    """The shape that the array demands of its elements, where the handle leads to the array."""
    source = c.handle_source(0)
    if source is None or source.op not in ("TensorArray", "TensorArrayV2", "TensorArrayV3"):
        return UNKNOWN_SHAPE
    shape: TensorShape = source.attrs["element_shape"]
    return shape


define(
    "TensorArrayRead",
    inputs=["handle: Ref(string)", "index: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    shape=read,
)
define(
    "TensorArrayReadV2",
    inputs=["handle: string", "index: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    shape=read,
)
define(
    "TensorArrayReadV3",
    inputs=["handle: resource", "index: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    is_stateful=True,
    shape=read,
)


def gather(c: ShapeContext) -> Sequence[TensorShape]:
    """One row for every index."""
    count = ranked(c, 1, 1)[0]
    element: TensorShape = c.attrs["element_shape"]
    return [vector(count).concatenate(_merged_or_first(element, _element(c)))]


def _merged_or_first(a: TensorShape, b: TensorShape) -> TensorShape:
    return a.merge_with(b) if a.is_compatible_with(b) else a


define(
    "TensorArrayGather",
    inputs=["handle: Ref(string)", "indices: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type", "element_shape: shape = unknown"],
    shape=gather,
)
define(
    "TensorArrayGatherV2",
    inputs=["handle: string", "indices: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type", "element_shape: shape = unknown"],
    shape=gather,
)
define(
    "TensorArrayGatherV3",
    inputs=["handle: resource", "indices: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type", "element_shape: shape = unknown"],
    is_stateful=True,
    shape=gather,
)


def pack(c: ShapeContext) -> Sequence[TensorShape]:
    return [vector(None).concatenate(c.attrs["element_shape"])]


define(
    "TensorArrayPack",
    inputs=["handle: Ref(string)", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type", "element_shape: shape = unknown"],
    shape=pack,
)


def concat(c: ShapeContext) -> Sequence[TensorShape]:
    """Elements joined along their first axis, and how long each was."""
    return [vector(None).concatenate(c.attrs["element_shape_except0"]), VECTOR]


define(
    "TensorArrayConcat",
    inputs=["handle: Ref(string)", "flow_in: float"],
    outputs=["value: dtype", "lengths: int64"],
    attrs=["dtype: type", "element_shape_except0: shape = unknown"],
    shape=concat,
)
define(
    "TensorArrayConcatV2",
    inputs=["handle: string", "flow_in: float"],
    outputs=["value: dtype", "lengths: int64"],
    attrs=["dtype: type", "element_shape_except0: shape = unknown"],
    shape=concat,
)
define(
    "TensorArrayConcatV3",
    inputs=["handle: resource", "flow_in: float"],
    outputs=["value: dtype", "lengths: int64"],
    attrs=["dtype: type", "element_shape_except0: shape = unknown"],
    is_stateful=True,
    shape=concat,
)
define(
    "TensorArraySize",
    inputs=["handle: Ref(string)", "flow_in: float"],
    outputs=["size: int32"],
    shape=scalars,
)
define(
    "TensorArraySizeV2", inputs=["handle: string", "flow_in: float"], outputs=["size: int32"], shape=scalars
)
define(
    "TensorArraySizeV3",
    inputs=["handle: resource", "flow_in: float"],
    outputs=["size: int32"],
    is_stateful=True,
    shape=scalars,
)
define("TensorArrayClose", inputs=["handle: Ref(string)"])
define("TensorArrayCloseV2", inputs=["handle: string"])
define("TensorArrayCloseV3", inputs=["handle: resource"], is_stateful=True)
