"""Functions defined by integrals, and quantiles of normal numbers."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define("Erfinv, Ndtri(x: T) -> y: T", "T: floattype", shape=unchanged)
define("Dawsn, Expint, FresnelCos, FresnelSin, Spence(x: T) -> y: T", "T: floattype", shape=unchanged)
