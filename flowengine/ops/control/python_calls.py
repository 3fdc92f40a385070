"""Calls of Python functions that live in the process that built the graph."""

from __future__ import annotations

from flowengine.ir.trait_checks.outward import CallsPython
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define

_ATTRS = "token: string; Tin: list(type) >= 0; Tout: list(type) >= 0"

define("PyFunc(input: Tin) -> output: Tout", f"stateful; {_ATTRS}", CallsPython(), NotDifferentiable())
define("PyFuncStateless(input: Tin) -> output: Tout", _ATTRS, CallsPython(), NotDifferentiable())
