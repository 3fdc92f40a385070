"""Variables, by reference and by resource handle."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import (
    Bookkeeping,
    GivesVariable,
    HandleOf,
    Method,
    Newer,
    NotDifferentiable,
    OfOneStep,
    Reads,
    ValueOf,
)
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    attr_shape,
    merge,
    merged,
    of_rank,
    ranked,
    scalars,
    unchanged,
    vector,
)

# Variables by reference.

define(
    "VariableV2() -> ref: Ref(dtype)",
    "stateful; shape: shape; dtype: type; container, shared_name: string = ''",
    GivesVariable("dtype"),
    NotDifferentiable(),
    shape=attr_shape,
)
define(
    "TemporaryVariable() -> ref: Ref(dtype)",
    "stateful; shape: shape; dtype: type; var_name: string = ''",
    OfOneStep(),
    NotDifferentiable(),
    shape=attr_shape,
)


@define(
    "Variable() -> ref: Ref(dtype)",
    "stateful; shape: shape; dtype: type; container, shared_name: string = ''",
    GivesVariable("dtype"),
    NotDifferentiable(),
)
def variable(c: ShapeContext) -> Shapes:
    """The attribute, except that of old a scalar's shape stands for an unknown one."""
    shape: TensorShape = c.attrs["shape"]
    return [shape if shape.rank else UNKNOWN_SHAPE]


define(
    "IsVariableInitialized(ref: Ref(dtype)) -> is_initialized: bool",
    "takes_uninitialized; dtype: type",
    Reads("ref"),
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "DestroyTemporaryVariable(ref: Ref(T)) -> value: T",
    "T: type; var_name: string",
    NotDifferentiable(),
    shape=unchanged,
)


@define(
    "Assign(ref: Ref(T), value: T) -> output_ref: Ref(T)",
    "takes_uninitialized; T: type; validate_shape, use_locking: bool = true",
    Bookkeeping(),
    NotDifferentiable(),
)
def assign(c: ShapeContext) -> Shapes:
    """The value's shape; where it is validated, the variable's too."""
    return [merge(c, (0, 1)) if c.attrs["validate_shape"] else c.input(1)]


define(
    "AssignAdd, AssignSub(ref: Ref(T), value: T) -> output_ref: Ref(T)",
    "T: numbertype; use_locking: bool = false",
    NotDifferentiable(),
    shape=merged,
)
define(
    "CountUpTo(ref: Ref(T)) -> output: T", "limit: int; T: indextype", NotDifferentiable(), shape=of_rank(0)
)


# Variables by resource handle.


@define(
    "ResourceCountUpTo(resource: resource) -> output: T",
    "stateful; limit: int; T: indextype",
    NotDifferentiable(),
)
def resource_count_up_to(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    return [c.handle_shape(0).with_rank(0)]


define(
    "VarHandleOp() -> resource: resource",
    "stateful; container, shared_name: string = ''; dtype: type; shape: shape",
    "debug_name: string = ''",
    "allowed_devices: list(string) = []",
    Newer(("debug_name", "allowed_devices")),
    GivesVariable("dtype"),
    HandleOf("variable", "dtype"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "_VarHandlesOp() -> resources: N * resource",
    "stateful; containers, shared_names: list(string); N: int >= 0; dtypes: list(type); shapes: list(shape)",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "VarIsInitializedOp(resource: resource) -> is_initialized: bool",
    "stateful",
    Reads("resource"),
    Bookkeeping(),
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "ReadVariableOp(resource: resource) -> value: dtype",
    "stateful; dtype: type",
    ValueOf("resource"),
    Reads("resource"),
    Method("variable", "dtype", "{0}.value_of({dtype})"),
)
def read_variable(c: ShapeContext) -> Shapes:
    return [c.handle_shape(0)]


@define(
    "_ReadVariablesOp(resources: N * resource) -> values: dtypes",
    "stateful; N: int >= 0; dtypes: list(type) >= 1",
    Reads("resources"),
)
def read_variables(c: ShapeContext) -> Shapes:
    return [c.handle_shape(i) for i in range(c.num_inputs)]


@define(
    "VariableShape(input: resource) -> output: out_type",
    "stateful; out_type: indextype = int32",
    Reads("input"),
    NotDifferentiable(),
)
def variable_shape(c: ShapeContext) -> Shapes:
    return [vector(c.handle_shape(0).rank)]


define("AssignAddVariableOp(resource: resource, value: dtype)", "stateful; dtype: type", NotDifferentiable())
define("AssignSubVariableOp(resource: resource, value: dtype)", "stateful; dtype: type", NotDifferentiable())


@define(
    "AssignVariableOp(resource: resource, value: dtype)",
    "stateful; dtype: type; validate_shape: bool = false",
    Newer(("validate_shape",)),
    Bookkeeping(),
    NotDifferentiable(),
)
def assign_variable(c: ShapeContext) -> Shapes:
    """Check that the assigned value has the shape that the variable's handle declares."""
    declared, value = c.handle_shape(0), c.input(1)
    if not declared.is_compatible_with(value):
        raise InvalidArgumentError(f"Shapes must be equal: the variable is declared {declared}, not {value}")
    return []


define(
    "DestroyResourceOp(resource: resource)", "stateful; ignore_lookup_error: bool = true", NotDifferentiable()
)
define("DisableCopyOnRead(resource: resource)", "stateful", Reads("resource"), NotDifferentiable())
