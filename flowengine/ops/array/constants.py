"""Constants, placeholders, repeated values, and values at given places of a background."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.attrs import exported_shape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Constant, Elementwise, ExternalValue, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    attr_shape,
    axis_of,
    check_scalars,
    dimension_value,
    ranked,
    shape_from_input,
    unchanged,
)

# Values that come from no input: constants, placeholders, tensors of one repeated value.


@define("Const() -> output: dtype", "value: tensor; dtype: type", Constant("value"), NotDifferentiable())
def constant(c: ShapeContext) -> Shapes:
    return [c.attrs["value"].shape]


define(
    "PlaceholderV2() -> output: dtype",
    "dtype: type; shape: shape",
    ExternalValue(is_exact=True),
    NotDifferentiable(),
    shape=attr_shape,
)


@define("PlaceholderWithDefault(input: dtype) -> output: dtype", "dtype: type; shape: shape", ExternalValue())
def placeholder_with_default(c: ShapeContext) -> Shapes:
    """The attribute, whatever the default's shape: what is fed may be another."""
    shape: TensorShape = c.attrs["shape"]
    if not shape.is_compatible_with(c.input(0)):
        raise InvalidArgumentError(f"the default has shape {c.input(0)}, which is not of shape {shape}")
    return [shape]


@define(
    "Placeholder() -> output: dtype",
    "dtype: type; shape: shape = unknown",
    ExternalValue(),
    NotDifferentiable(),
)
def placeholder(c: ShapeContext) -> Shapes:
    shape: TensorShape = c.attrs["shape"]
    # Programs of that age wrote a scalar's shape where they meant that any shape may be fed.
    legacy = c.producer <= 21 and shape.rank == 0
    return [exported_shape(c.attrs) if legacy or shape.rank is None else shape]


define("ZerosLike(x: T) -> y: T", "T: type", Elementwise(), NotDifferentiable(), shape=unchanged)
define(
    "OnesLike(x: T) -> y: T",
    "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64, "
    "complex64, complex128, bool}",
    Elementwise(),
    NotDifferentiable(),
    shape=unchanged,
)


@define("Fill(dims: index_type, value: T) -> output: T", "T: type; index_type: indextype = int32")
def fill(c: ShapeContext) -> Shapes:
    ranked(c, 0, 1)
    ranked(c, 1, 0)
    return [c.input_as_shape(0)]


define(
    "Empty(shape: int32) -> output: dtype",
    "stateful; dtype: type; init: bool = false",
    NotDifferentiable(),
    shape=shape_from_input(0),
)
define("FakeParam() -> output: dtype", "dtype: type; shape: shape", NotDifferentiable(), shape=attr_shape)


# A constant background with values at given places.


@define(
    "OneHot(indices: TI, depth: int32, on_value, off_value: T) -> output: T",
    "axis: int = -1; T: type; TI: {uint8, int8, int32, int64} = int64",
    NotDifferentiable(),
)
def one_hot(c: ShapeContext) -> Shapes:
    """indices -> indices with an axis of `depth`"""
    shape = c.input(0)
    depth = dimension_value(c, 1)
    check_scalars(c, 2, 3)
    axis: int = c.attrs["axis"]
    if axis < -1:
        raise InvalidArgumentError(f"axis must be >= -1, but is {axis}")
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    where = rank if axis == -1 else axis_of(axis, rank + 1)
    return [TensorShape((*shape.dims[:where], depth, *shape.dims[where:]))]


@define(
    "SparseToDense(sparse_indices, output_shape: Tindices, sparse_values, default_value: T) -> dense: T",
    "validate_indices: bool = true; T: type; Tindices: indextype",
)
def sparse_to_dense(c: ShapeContext) -> Shapes:
    ranked(c, 1, 1)
    return [c.input_as_shape(1)]
