"""Constants, placeholders, identities and what is asked of a tensor's shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    attr_shape,
    axis_of,
    each_unchanged,
    ranked,
    ranked_at_most,
    replace_dim,
    scalars,
    shape_from_input,
    unchanged,
    vector,
)


def constant(c: ShapeContext) -> Sequence[TensorShape]:
    return [c.attrs["value"].shape]


define("Const", outputs=["output: dtype"], attrs=["value: tensor", "dtype: type"], shape=constant)
define(
    "ImmutableConst",
    outputs=["tensor: dtype"],
    attrs=["dtype: type", "shape: shape", "memory_region_name: string"],
    shape=attr_shape,
)
define("PlaceholderV2", outputs=["output: dtype"], attrs=["dtype: type", "shape: shape"], shape=attr_shape)


def placeholder_with_default(c: ShapeContext) -> Sequence[TensorShape]:
    """The attribute, whatever the default's shape: what is fed may be another."""
    shape: TensorShape = c.attrs["shape"]
    if not shape.is_compatible_with(c.input(0)):
        raise InvalidArgumentError(f"the default has shape {c.input(0)}, which is not of shape {shape}")
    return [shape]


define(
    "PlaceholderWithDefault",
    inputs=["input: dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type", "shape: shape"],
    shape=placeholder_with_default,
)


def placeholder(c: ShapeContext) -> Sequence[TensorShape]:
    shape: TensorShape = c.attrs["shape"]
    # Programs of that age wrote a scalar's shape where they meant that any shape may be fed.
    legacy = c.producer <= 21 and shape.rank == 0
    return [UNKNOWN_SHAPE if legacy else shape]


define(
    "Placeholder",
    outputs=["output: dtype"],
    attrs=["dtype: type", "shape: shape = unknown"],
    shape=placeholder,
)
define("Identity", inputs=["input: T"], outputs=["output: T"], attrs=["T: type"], shape=unchanged)
define(
    "RefIdentity",
    inputs=["input: Ref(T)"],
    outputs=["output: Ref(T)"],
    attrs=["T: type"],
    allows_uninitialized_input=True,
    shape=unchanged,
)
define("Snapshot", inputs=["input: T"], outputs=["output: T"], attrs=["T: type"], shape=unchanged)
define("StopGradient", inputs=["input: T"], outputs=["output: T"], attrs=["T: type"], shape=unchanged)
define(
    "PreventGradient",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type", 'message: string = ""'],
    shape=unchanged,
)
define(
    "CheckNumerics",
    inputs=["tensor: T"],
    outputs=["output: T"],
    attrs=["T: floattype", "message: string"],
    is_stateful=True,
    shape=unchanged,
)
define("DeepCopy", inputs=["x: T"], outputs=["y: T"], attrs=["T: type"], is_stateful=True, shape=unchanged)
define(
    "DebugGradientIdentity",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    allows_uninitialized_input=True,
    shape=unchanged,
)
define(
    "DebugGradientRefIdentity",
    inputs=["input: Ref(T)"],
    outputs=["output: Ref(T)"],
    attrs=["T: type"],
    allows_uninitialized_input=True,
    shape=unchanged,
)
define(
    "GuaranteeConst",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    is_stateful=True,
    shape=unchanged,
)
define("ZerosLike", inputs=["x: T"], outputs=["y: T"], attrs=["T: type"], shape=unchanged)
define(
    "OnesLike",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=[
        (
            "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, int64, complex64, "
            "complex128, bool}"
        )
    ],
    shape=unchanged,
)
define(
    "IdentityN",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: list(type) >= 1"],
    shape=each_unchanged,
)


def ensure_shape(c: ShapeContext) -> Sequence[TensorShape]:
    return [c.input(0).merge_with(c.attrs["shape"])]


define(
    "EnsureShape",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["shape: shape", "T: type"],
    shape=ensure_shape,
)


def shape_of(c: ShapeContext) -> Sequence[TensorShape]:
    return [vector(c.input(i).rank) for i in range(c.num_inputs)]


define(
    "Shape",
    inputs=["input: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: {int32, int64} = int32"],
    shape=shape_of,
)
define(
    "ShapeN",
    inputs=["input: N * T"],
    outputs=["output: N * out_type"],
    attrs=["N: int >= 1", "T: type", "out_type: {int32, int64} = int32"],
    shape=shape_of,
)
define("Rank", inputs=["input: T"], outputs=["output: int32"], attrs=["T: type"], shape=scalars)
define(
    "Size",
    inputs=["input: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: {int32, int64} = int32"],
    shape=scalars,
)


def fill(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 1)
    ranked(c, 1, 0)
    return [c.input_as_shape(0)]


define(
    "Fill",
    inputs=["dims: index_type", "value: T"],
    outputs=["output: T"],
    attrs=["T: type", "index_type: {int32, int64} = int32"],
    shape=fill,
)
define(
    "Empty",
    inputs=["shape: int32"],
    outputs=["output: dtype"],
    attrs=["dtype: type", "init: bool = false"],
    is_stateful=True,
    shape=shape_from_input(0),
)


def reshape(c: ShapeContext) -> Sequence[TensorShape]:
    """(...), target -> target, with the one dimension given as -1 found from the number of elements."""
    source = c.input(0)
    ranked_at_most(c, 1, 1)
    target = c.input_as_shape(1)
    if target.dims is None:
        return [UNKNOWN_SHAPE]
    unknown = [axis for axis, d in enumerate(target.dims) if d is None]
    count = source.num_elements()
    if count is None or len(unknown) > 1:
        return [target]
    known = math.prod(d for d in target.dims if d is not None)
    if not unknown:
        if known != count:
            raise InvalidArgumentError(
                f"Cannot reshape a tensor with {count} elements to shape {target} ({known} elements) "
                f"from input shape {source}"
            )
        return [target]
    if known == 0:
        # A dimension of zero leaves the other free; at run time it becomes zero.
        return [target]
    if count % known:
        raise InvalidArgumentError(
            f"Cannot reshape a tensor with {count} elements to shape {target}: "
            f"{count} is not a multiple of {known}"
        )
    return [replace_dim(target, unknown[0], count // known)]


define(
    "Reshape",
    inputs=["tensor: T", "shape: Tshape"],
    outputs=["output: T"],
    attrs=["T: type", "Tshape: {int32, int64} = int32"],
    shape=reshape,
)


def expand_dims(c: ShapeContext) -> Sequence[TensorShape]:
    shape = c.input(0)
    axis = c.input_value(1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims) + 1
    if axis is None:
        return [unknown_of_rank(rank)]
    where = axis_of(axis, rank, "dim")
    return [TensorShape((*shape.dims[:where], 1, *shape.dims[where:]))]


define(
    "ExpandDims",
    inputs=["input: T", "dim: Tdim"],
    outputs=["output: T"],
    attrs=["T: type", "Tdim: {int32, int64} = int32"],
    shape=expand_dims,
)


def squeeze(c: ShapeContext) -> Sequence[TensorShape]:
    shape = c.input(0)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    axes = {axis_of(axis, rank, "squeeze_dims") for axis in c.attrs["squeeze_dims"]}
    if not axes:
        # An unknown dimension may be 1 and then goes.
        if None in shape.dims:
            return [UNKNOWN_SHAPE]
        return [TensorShape([d for d in shape.dims if d != 1])]
    for axis in axes:
        if shape.dims[axis] not in (1, None):
            raise InvalidArgumentError(f"Can not squeeze dim[{axis}], expected a dimension of 1, got {shape}")
    return [TensorShape([d for axis, d in enumerate(shape.dims) if axis not in axes])]


define(
    "Squeeze",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type", "squeeze_dims: list(int) >= 0 = []"],
    shape=squeeze,
)


def broadcast_args(c: ShapeContext) -> Sequence[TensorShape]:
    a, b = ranked(c, 0, 1)[0], ranked(c, 1, 1)[0]
    return [vector(None if a is None or b is None else max(a, b))]


define(
    "BroadcastArgs",
    inputs=["s0: T", "s1: T"],
    outputs=["r0: T"],
    attrs=["T: {int32, int64} = int32"],
    shape=broadcast_args,
)


def broadcast_gradient_args(c: ShapeContext) -> Sequence[TensorShape]:
    """The axes to sum over, as many as differ."""
    ranked(c, 0, 1)
    ranked(c, 1, 1)
    return [VECTOR, VECTOR]


define(
    "BroadcastGradientArgs",
    inputs=["s0: T", "s1: T"],
    outputs=["r0: T", "r1: T"],
    attrs=["T: {int32, int64} = int32"],
    shape=broadcast_gradient_args,
)


def bitcast(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., k) of small elements -> (...) of k times larger ones; the reverse; or unchanged."""
    shape = c.input(0)
    small, large = c.attrs["type"].size, c.attrs["T"].size
    if shape.dims is None or not small or not large:
        return [UNKNOWN_SHAPE]
    if small == large:
        return [shape]
    if large > small:
        return [TensorShape((*shape.dims, large // small))]
    if not shape.dims:
        raise InvalidArgumentError("Cannot bitcast a scalar to a larger type")
    if shape.dims[-1] not in (None, small // large):
        raise InvalidArgumentError(
            f"Cannot bitcast {shape} of {large} bytes an element to {small} bytes: "
            f"the last dimension must be {small // large}"
        )
    return [TensorShape(shape.dims[:-1])]


define(
    "Bitcast",
    inputs=["input: T"],
    outputs=["output: type"],
    attrs=[
        (
            "T: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, "
            "int16, complex64, complex128, qint8, quint8, qint16, quint16, qint32}"
        ),
        (
            "type: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, "
            "int16, complex64, complex128, qint8, quint8, qint16, quint16, qint32}"
        ),
    ],
    shape=bitcast,
)
