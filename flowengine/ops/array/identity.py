"""Inputs passed on: identities, no-ops, and the checks that do nothing else."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Checks, HandsOn, HandsOnEach, Impure, NotDifferentiable, Orders, Reads
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import each_unchanged, unchanged

define("Identity(input: T) -> output: T", "T: type", HandsOn("input", "output"), shape=unchanged)
define(
    "RefIdentity(input: Ref(T)) -> output: Ref(T)",
    "takes_uninitialized; T: type",
    HandsOn("input", "output"),
    shape=unchanged,
)
define("Snapshot(input: T) -> output: T", "T: type", shape=unchanged)
define(
    "StopGradient(input: T) -> output: T",
    "T: type",
    HandsOn("input", "output"),
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "PreventGradient(input: T) -> output: T",
    "T: type; message: string = ''",
    HandsOn("input", "output"),
    shape=unchanged,
)
define("DeepCopy(x: T) -> y: T", "stateful; T: type", shape=unchanged)
define(
    "DebugGradientIdentity(input: T) -> output: T", "takes_uninitialized; T: type", Impure(), shape=unchanged
)
define(
    "DebugGradientRefIdentity(input: Ref(T)) -> output: Ref(T)",
    "takes_uninitialized; T: type",
    Reads("input"),
    Impure(),
    shape=unchanged,
)
define("GuaranteeConst(input: T) -> output: T", "stateful; T: type", shape=unchanged)
define(
    "IdentityN(input: T) -> output: T",
    "T: list(type) >= 1",
    HandsOnEach(),
    shape=each_unchanged,
)


@define("EnsureShape(input: T) -> output: T", "shape: shape; T: type", Checks())
def ensure_shape(c: ShapeContext) -> Shapes:
    return [c.input(0).merge_with(c.attrs["shape"])]


define("Abort()", "error_msg: string = ''; exit_without_error: bool = false", NotDifferentiable())
define("NoOp()", Orders(), NotDifferentiable())
define("SyncDevice()", "stateful", NotDifferentiable())
define(
    "Assert(condition: bool, data: T)",
    "stateful; T: list(type) >= 1; summarize: int = 3",
    NotDifferentiable(),
)
