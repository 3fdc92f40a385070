"""Calls of functions of the graph and of Python."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import CallsPython
from flowengine.ir.traits import ExternalValue, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import each_unchanged

# Ops that call functions of the graph's library.


@define(
    "If(cond: Tcond, input: Tin) -> output: Tout",
    "stateful; Tcond: type; Tin, Tout: list(type) >= 0; then_branch, else_branch: func",
    "output_shapes: list(shape) = []",
)
@define(
    "StatelessIf(cond: Tcond, input: Tin) -> output: Tout",
    "Tcond: type; Tin, Tout: list(type) >= 0; then_branch, else_branch: func",
    "output_shapes: list(shape) = []",
)
@define(
    "Case(branch_index: int32, input: Tin) -> output: Tout",
    "stateful; Tin, Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []",
)
@define(
    "StatelessCase(branch_index: int32, input: Tin) -> output: Tout",
    "Tin, Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []",
)
@define(
    "While(input: T) -> output: T",
    "stateful; T: list(type) >= 0; cond, body: func; output_shapes: list(shape) = []",
    "parallel_iterations: int = 10",
)
@define(
    "StatelessWhile(input: T) -> output: T",
    "T: list(type) >= 0; cond, body: func; output_shapes: list(shape) = []; parallel_iterations: int = 10",
)
def declared_shapes(c: ShapeContext) -> Shapes:
    """Return the shapes in `output_shapes`, else unknown ones: a loop may change a variable's shape."""
    shapes: Sequence[TensorShape] = c.attrs["output_shapes"]
    return shapes if len(shapes) == c.num_outputs else [UNKNOWN_SHAPE] * c.num_outputs


@define("SymbolicGradient(input: Tin) -> output: Tout", "Tin, Tout: list(type) >= 1; f: func")
def symbolic_gradient(c: ShapeContext) -> Shapes:
    """A gradient for each of the first inputs, shaped like it."""
    if c.num_inputs < c.num_outputs:
        raise InvalidArgumentError("len(inputs) < len(outputs)")
    return [c.input(i) for i in range(c.num_outputs)]


define(
    "_ListToArray(input: Tin) -> output: N * T",
    "Tin: list(type) >= 1; T: type; N: int >= 1",
    shape=each_unchanged,
)
define(
    "_ArrayToList(input: N * T) -> output: out_types",
    "T: type; N: int >= 1; out_types: list(type) >= 1",
    shape=each_unchanged,
)
define("For(start, limit, delta: int32, input: T) -> output: T", "T: list(type) >= 0; body: func")
define(
    "PartitionedCall(args: Tin) -> output: Tout",
    "Tin, Tout: list(type) >= 0; f: func; config, config_proto, executor_type: string = ''",
)
define(
    "RemoteCall(target: string, args: Tin) -> output: Tout", "stateful; Tin, Tout: list(type) >= 1; f: func"
)
define(
    "StatefulPartitionedCall(args: Tin) -> output: Tout",
    "stateful; Tin, Tout: list(type) >= 0; f: func; config, config_proto, executor_type: string = ''",
)
define("_Arg() -> output: T", "stateful; T: type; index: int >= 0", ExternalValue())
define("_DeviceArg() -> output: T", "stateful; T: type; index: int >= 0")
define("_DeviceRetval(input: T)", "stateful; T: type; index: int >= 0")
define(
    "_If(cond: Tcond, input: Tin) -> output: Tout",
    "stateful; Tcond: type; Tin, Tout: list(type) >= 1; then_branch, else_branch: func",
)
define("_Retval(input: T)", "stateful; T: type; index: int >= 0")
define("_While(input: T) -> output: T", "stateful; T: list(type) >= 0; cond, body: func")


# Calls of Python functions that live in the process that built the graph.

_ATTRS = "token: string; Tin: list(type) >= 0; Tout: list(type) >= 0"

define("PyFunc(input: Tin) -> output: Tout", f"stateful; {_ATTRS}", CallsPython(), NotDifferentiable())
define("PyFuncStateless(input: Tin) -> output: Tout", _ATTRS, CallsPython(), NotDifferentiable())
