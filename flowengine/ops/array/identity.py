"""Inputs passed on: identities, checks, copies and watches of a debugger."""

from __future__ import annotations

from typing import Final

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Checks, HandsOn, HandsOnEach, Impure, NotDifferentiable, Orders, Reads
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import each_unchanged, fixed, unchanged, vector

# Inputs passed on: identities, no-ops, and the checks that do nothing else.

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
    Checks(),
    NotDifferentiable(),
)


# Watches over tensors, as TensorFlow's debugger puts them into graphs.

define(
    "DebugIdentity(input: T) -> output: T",
    "takes_uninitialized; T: type; device_name, tensor_name: string = ''; debug_urls: list(string) = []",
    "gated_grpc: bool = false",
    shape=unchanged,
)
define(
    "DebugIdentityV2(input: T) -> output: T",
    "stateful; T: type; tfdbg_context_id, op_name: string = ''; output_slot, tensor_debug_mode: int = -1",
    "debug_urls: list(string) = []; circular_buffer_size: int = 1000; tfdbg_run_id: string = ''",
    shape=unchanged,
)
define(
    "DebugIdentityV3(input: T) -> output: T",
    "stateful; takes_uninitialized; T: type; device_name, tensor_name, io_of_node: string = ''",
    "is_input: bool = false; io_index: int = -1; debug_urls: list(string) = []; gated_grpc: bool = false",
    shape=unchanged,
)
define(
    "DebugNanCount(input: T) -> output: int64",
    "takes_uninitialized; T: type; device_name, tensor_name: string = ''; debug_urls: list(string) = []",
    "gated_grpc: bool = false",
    NotDifferentiable(),
    shape=fixed([1]),
)


@define(
    "DebugNumericSummary(input: T) -> output: double",
    "takes_uninitialized; T: type; device_name, tensor_name: string = ''; debug_urls: list(string) = []",
    "lower_bound: float = -inf; upper_bound: float = inf; mute_if_healthy, gated_grpc: bool = false",
    NotDifferentiable(),
)
def numeric_summary(c: ShapeContext) -> Shapes:
    """Fourteen numbers, and the dimensions"""
    rank = c.input(0).rank
    return [vector(None if rank is None else 14 + rank)]


#: {tensor_debug_mode: how many numbers tell of a tensor}
_NUMBERS: Final = {2: 2, 3: 5, 4: 11, 5: 10, 8: 3}


@define(
    "DebugNumericSummaryV2(input: T) -> output: output_dtype",
    "output_dtype: {float, double} = float; T: type; tensor_debug_mode, tensor_id: int = -1",
    NotDifferentiable(),
)
def numeric_summary_v2(c: ShapeContext) -> Shapes:
    return [vector(_NUMBERS.get(c.attrs["tensor_debug_mode"]))]


# Copies of a tensor, which TensorFlow's debugger puts between a node and who watches it.

define(
    "Copy, CopyHost(input: T) -> output: T",
    "takes_uninitialized; T: type; tensor_name: string = ''; debug_ops_spec: list(string) = []",
    NotDifferentiable(),
    shape=unchanged,
)
