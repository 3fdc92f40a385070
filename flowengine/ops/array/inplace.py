"""Rows of a tensor replaced."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define("InplaceAdd(x: T, i: int32, v: T) -> y: T", "T: type", shape=unchanged)
define("InplaceSub(x: T, i: int32, v: T) -> y: T", "T: type", shape=unchanged)
define("InplaceUpdate(x: T, i: int32, v: T) -> y: T", "T: type", shape=unchanged)
