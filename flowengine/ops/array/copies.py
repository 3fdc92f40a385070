"""Copies of a tensor, which TensorFlow's debugger puts between a node and who watches it."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define(
    "Copy, CopyHost(input: T) -> output: T",
    "takes_uninitialized; T: type; tensor_name: string = ''; debug_ops_spec: list(string) = []",
    NotDifferentiable(),
    shape=unchanged,
)
