"""Arrays of tensors, written and read by steps of a loop."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import HandleOf, Method, NotDifferentiable, OfOneStep, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, check_scalars, ranked, scalars, two_strings, vector
from flowengine.ops.state.resources import ELEMENT_SHAPE

#: The handle is of an object that ends with the step.
IN_STEP: Final = (Uses("handle"), OfOneStep())

define(
    "TensorArrayV3(size: int32) -> handle: resource, flow: float",
    "stateful; dtype: type; element_shape: shape = unknown; dynamic_size: bool = false",
    "clear_after_read: bool = true; identical_element_shapes: bool = false; tensor_array_name: string = ''",
    OfOneStep(),
    HandleOf("array", dtype="dtype"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorArrayGradV3(handle: resource, flow_in: float) -> grad_handle: resource, flow_out: float",
    "stateful; source: string",
    *IN_STEP,
    HandleOf("array", like="handle"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorArrayGradWithShape(handle: resource, flow_in: float, shape_to_prepend: int32) "
    "-> grad_handle: resource, flow_out: float",
    "stateful; source: string",
    *IN_STEP,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TensorArray(size: int32) -> handle: Ref(string)",
    "stateful; dtype: type; dynamic_size: bool = false; clear_after_read: bool = true",
    "tensor_array_name: string = ''; element_shape: shape = unknown",
    OfOneStep(),
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "TensorArrayV2(size: int32) -> handle: string",
    "stateful; dtype: type; element_shape: shape = unknown; dynamic_size: bool = false",
    "clear_after_read: bool = true; tensor_array_name: string = ''",
    OfOneStep(),
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "TensorArrayGrad(handle: string, flow_in: float) -> grad_handle: Ref(string)",
    "stateful; source: string",
    OfOneStep(),
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "TensorArrayGradV2(handle: string, flow_in: float) -> grad_handle: string",
    "stateful; source: string",
    OfOneStep(),
    NotDifferentiable(),
    shape=two_strings,
)


@define(
    "TensorArrayWrite(handle: Ref(string), index: int32, value: T, flow_in: float) -> flow_out: float",
    "T: type",
)
@define(
    "TensorArrayWriteV2(handle: string, index: int32, value: T, flow_in: float) -> flow_out: float", "T: type"
)
@define(
    "TensorArrayWriteV3(handle: resource, index: int32, value: T, flow_in: float) -> flow_out: float",
    "stateful; T: type",
    *IN_STEP,
    Method("array", "T", "{0}.write(int({1}), {2}) or {3}", "index"),
)
@define(
    "TensorArrayScatter(handle: Ref(string), indices: int32, value: T, flow_in: float) -> flow_out: float",
    "T: type",
)
@define(
    "TensorArrayScatterV2(handle: string, indices: int32, value: T, flow_in: float) -> flow_out: float",
    "T: type",
)
@define(
    "TensorArrayScatterV3(handle: resource, indices: int32, value: T, flow_in: float) -> flow_out: float",
    "stateful; T: type",
    *IN_STEP,
)
@define(
    "TensorArraySplit(handle: Ref(string), value: T, lengths: int64, flow_in: float) -> flow_out: float",
    "T: type",
)
@define(
    "TensorArraySplitV2(handle: string, value: T, lengths: int64, flow_in: float) -> flow_out: float",
    "T: type",
)
@define(
    "TensorArraySplitV3(handle: resource, value: T, lengths: int64, flow_in: float) -> flow_out: float",
    "stateful; T: type",
    *IN_STEP,
)
@define("TensorArrayUnpack(handle: Ref(string), value: T, flow_in: float) -> flow_out: float", "T: type")
def flow(c: ShapeContext) -> Shapes:
    """The flow, a scalar that orders reads after writes."""
    check_scalars(c, c.num_inputs - 1)
    return [SCALAR]


@define("TensorArrayRead(handle: Ref(string), index: int32, flow_in: float) -> value: dtype", "dtype: type")
@define("TensorArrayReadV2(handle: string, index: int32, flow_in: float) -> value: dtype", "dtype: type")
@define(
    "TensorArrayReadV3(handle: resource, index: int32, flow_in: float) -> value: dtype",
    "stateful; dtype: type",
    *IN_STEP,
    Method("array", "dtype", "{0}.get(int({1}))", "index"),
)
def read(c: ShapeContext) -> Shapes:
    check_scalars(c, 1, 2)
    said = c.attrs.get(ELEMENT_SHAPE)
    return [said if isinstance(said, TensorShape) else _element(c)]


def _element(c: ShapeContext) -> TensorShape:
    """The shape that the array demands of its elements, where the handle leads to the array."""
    source = c.handle_source(0)
    if source is None or source.op not in ("TensorArray", "TensorArrayV2", "TensorArrayV3"):
        return UNKNOWN_SHAPE
    shape: TensorShape = source.attrs["element_shape"]
    return shape


@define(
    "TensorArrayGather(handle: Ref(string), indices: int32, flow_in: float) -> value: dtype",
    "dtype: type; element_shape: shape = unknown",
)
@define(
    "TensorArrayGatherV2(handle: string, indices: int32, flow_in: float) -> value: dtype",
    "dtype: type; element_shape: shape = unknown",
)
@define(
    "TensorArrayGatherV3(handle: resource, indices: int32, flow_in: float) -> value: dtype",
    "stateful; dtype: type; element_shape: shape = unknown",
    *IN_STEP,
)
def gather(c: ShapeContext) -> Shapes:
    """One row for every index."""
    count = ranked(c, 1, 1)[0]
    element: TensorShape = c.attrs["element_shape"]
    return [vector(count).concatenate(_merged_or_first(element, _element(c)))]


def _merged_or_first(a: TensorShape, b: TensorShape) -> TensorShape:
    return a.merge_with(b) if a.is_compatible_with(b) else a


@define(
    "TensorArrayPack(handle: Ref(string), flow_in: float) -> value: dtype",
    "dtype: type; element_shape: shape = unknown",
)
def pack(c: ShapeContext) -> Shapes:
    return [vector(None).concatenate(c.attrs["element_shape"])]


@define(
    "TensorArrayConcat(handle: Ref(string), flow_in: float) -> value: dtype, lengths: int64",
    "dtype: type; element_shape_except0: shape = unknown",
)
@define(
    "TensorArrayConcatV2(handle: string, flow_in: float) -> value: dtype, lengths: int64",
    "dtype: type; element_shape_except0: shape = unknown",
)
@define(
    "TensorArrayConcatV3(handle: resource, flow_in: float) -> value: dtype, lengths: int64",
    "stateful; dtype: type; element_shape_except0: shape = unknown",
    *IN_STEP,
)
def concat(c: ShapeContext) -> Shapes:
    """Elements joined along their first axis, and how long each was."""
    return [vector(None).concatenate(c.attrs["element_shape_except0"]), VECTOR]


define(
    "TensorArraySize(handle: Ref(string), flow_in: float) -> size: int32", NotDifferentiable(), shape=scalars
)
define("TensorArraySizeV2(handle: string, flow_in: float) -> size: int32", NotDifferentiable(), shape=scalars)
define(
    "TensorArraySizeV3(handle: resource, flow_in: float) -> size: int32",
    "stateful",
    *IN_STEP,
    NotDifferentiable(),
    shape=scalars,
)
define("TensorArrayClose(handle: Ref(string))", NotDifferentiable())
define("TensorArrayCloseV2(handle: string)", NotDifferentiable())
define("TensorArrayCloseV3(handle: resource)", "stateful", *IN_STEP, NotDifferentiable())
