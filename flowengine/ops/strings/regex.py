"""Regular expressions over strings."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define("RegexFullMatch(input, pattern: string) -> output: bool", NotDifferentiable(), shape=unchanged)
define(
    "RegexReplace(input, pattern, rewrite: string) -> output: string",
    "replace_global: bool = true",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "StaticRegexFullMatch(input: string) -> output: bool",
    "pattern: string",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "StaticRegexReplace(input: string) -> output: string",
    "pattern, rewrite: string; replace_global: bool = true",
    NotDifferentiable(),
    shape=unchanged,
)
