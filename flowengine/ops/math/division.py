"""Division and remainders."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast

define("Div(x, y: T) -> z: T", "T: arithmetictype", shape=broadcast)
define("DivNoNan(x, y: T) -> z: T", "T: {half, float, double, complex64, complex128}", shape=broadcast)
define("RealDiv(x, y: T) -> z: T", "T: arithmetictype", shape=broadcast)
define("FloorDiv(x, y: T) -> z: T", "T: arithmetictype", shape=broadcast)
define("TruncateDiv(x, y: T) -> z: T", "T: arithmetictype", shape=broadcast)
define("FloorMod(x, y: T) -> z: T", "T: {int32, int64, bfloat16, half, float, double}", shape=broadcast)
define("TruncateMod(x, y: T) -> z: T", "T: {int32, int64, bfloat16, half, float, double}", shape=broadcast)
define("Mod(x, y: T) -> z: T", "T: {int32, int64, half, half, bfloat16, float, double}", shape=broadcast)
