"""Gradients of elementwise functions that are ops of their own."""

from __future__ import annotations

from flowengine.ir.traits import Elementwise
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merged

define("InvGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("ReciprocalGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("RsqrtGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("SigmoidGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("SqrtGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("TanhGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
