"""Watches over tensors, as TensorFlow's debugger puts them into graphs."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import fixed, unchanged

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
    "DebugNanCount(input: T) -> output: int64",
    "takes_uninitialized; T: type; device_name, tensor_name: string = ''; debug_urls: list(string) = []",
    "gated_grpc: bool = false",
    NotDifferentiable(),
    shape=fixed([1]),
)
