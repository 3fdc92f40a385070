"""Whether a tensor counts as true."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define("ToBool(input: T) -> output: bool", "T: type", NotDifferentiable(), shape=scalars)
