"""Variables by reference."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Bookkeeping, GivesVariable, NotDifferentiable, OfOneStep, Reads
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import attr_shape, merge, merged, of_rank, scalars, unchanged

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
