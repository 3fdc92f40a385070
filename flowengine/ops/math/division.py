"""Division and remainders."""

from __future__ import annotations

from typing import Final

from flowengine.ir.traits import Broadcasts, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast

#: Element by element, of two tensors.
PAIRS: Final = Broadcasts("x", "y")

define("Div(x, y: T) -> z: T", "T: arithmetictype", PAIRS, shape=broadcast)
define("DivNoNan(x, y: T) -> z: T", "T: inexacttype", PAIRS, shape=broadcast)
define("RealDiv(x, y: T) -> z: T", "T: arithmetictype", PAIRS, shape=broadcast)
define("FloorDiv(x, y: T) -> z: T", "T: arithmetictype", PAIRS, NotDifferentiable(), shape=broadcast)
define("TruncateDiv(x, y: T) -> z: T", "T: arithmetictype", PAIRS, NotDifferentiable(), shape=broadcast)
define("FloorMod(x, y: T) -> z: T", "T: realnumbertype", PAIRS, shape=broadcast)
define(
    "TruncateMod(x, y: T) -> z: T",
    "T: {int32, int64, bfloat16, half, float, double}",
    PAIRS,
    shape=broadcast,
)
define(
    "Mod(x, y: T) -> z: T", "T: {int32, int64, half, half, bfloat16, float, double}", PAIRS, shape=broadcast
)
