"""Variables by resource handle."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import (
    Bookkeeping,
    GivesVariable,
    HandleOf,
    Method,
    Newer,
    NotDifferentiable,
    Reads,
    ValueOf,
)
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked, scalars, vector


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
    """What is assigned is of the shape that the variable's handle declares."""
    declared, value = c.handle_shape(0), c.input(1)
    if not declared.is_compatible_with(value):
        raise InvalidArgumentError(f"Shapes must be equal: the variable is declared {declared}, not {value}")
    return []


define(
    "DestroyResourceOp(resource: resource)", "stateful; ignore_lookup_error: bool = true", NotDifferentiable()
)
define("DisableCopyOnRead(resource: resource)", "stateful", Reads("resource"), NotDifferentiable())
