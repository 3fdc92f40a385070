"""Regular expressions over strings."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define("RegexFullMatch(input, pattern: string) -> output: bool", shape=unchanged)
define(
    "RegexReplace(input, pattern, rewrite: string) -> output: string",
    "replace_global: bool = true",
    shape=unchanged,
)
define("StaticRegexFullMatch(input: string) -> output: bool", "pattern: string", shape=unchanged)
define(
    "StaticRegexReplace(input: string) -> output: string",
    "pattern, rewrite: string; replace_global: bool = true",
    shape=unchanged,
)
