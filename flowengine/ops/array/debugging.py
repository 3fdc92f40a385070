"""Watches over tensors, as TensorFlow's debugger puts them into graphs."""

from __future__ import annotations

from typing import Final

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import fixed, unchanged, vector

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
