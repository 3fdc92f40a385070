"""Bessel functions of order 0 and 1."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define("BesselI0, BesselI1(x: T) -> y: T", "T: floattype", shape=unchanged)
define("BesselJ0, BesselJ1(x: T) -> y: T", "T: floattype", shape=unchanged)
define("BesselK0, BesselK0e, BesselK1, BesselK1e(x: T) -> y: T", "T: floattype", shape=unchanged)
define("BesselY0, BesselY1(x: T) -> y: T", "T: floattype", shape=unchanged)
