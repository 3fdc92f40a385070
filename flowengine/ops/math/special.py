"""Special functions: error function, gamma, Bessel functions, functions defined by integrals."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Elementwise
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast, unchanged

# Special functions: error function, gamma and its relatives, Bessel functions.

define("Zeta(x, q: T) -> z: T", "T: {float, double}", shape=broadcast)
define("Polygamma(a, x: T) -> z: T", "T: {float, double}", shape=broadcast)
define("Igamma(a, x: T) -> z: T", "T: {float, double}", shape=broadcast)
define("Igammac(a, x: T) -> z: T", "T: {float, double}", shape=broadcast)
define("IgammaGradA(a, x: T) -> z: T", "T: {float, double}", shape=broadcast)
define("BesselI0e(x: T) -> y: T", "T: floattype", shape=unchanged)
define("BesselI1e(x: T) -> y: T", "T: floattype", shape=unchanged)
define("Digamma(x: T) -> y: T", "T: floattype", Elementwise(), shape=unchanged)
define("Erf(x: T) -> y: T", "T: floattype", Elementwise(), shape=unchanged)
define("Erfc(x: T) -> y: T", "T: floattype", Elementwise(), shape=unchanged)
define("Lgamma(x: T) -> y: T", "T: floattype", Elementwise(), shape=unchanged)


@define("Betainc(a, b, x: T) -> z: T", "T: {float, double}")
def betainc(c: ShapeContext) -> Shapes:
    """Three tensors of one shape, scalars aside."""
    result = SCALAR
    for index in range(3):
        shape = c.input(index)
        if shape.dims is None:
            result = shape if result.rank == 0 else result
        elif shape.dims:
            result = shape if not result.rank else result.merge_with(shape)
    known = [c.input(i) for i in range(3)]
    if result.rank == 0 and any(s.dims is None for s in known):
        return [UNKNOWN_SHAPE]
    return [result]


# Bessel functions of order 0 and 1.

define("BesselI0, BesselI1(x: T) -> y: T", "T: floattype", shape=unchanged)
define("BesselJ0, BesselJ1(x: T) -> y: T", "T: floattype", shape=unchanged)
define("BesselK0, BesselK0e, BesselK1, BesselK1e(x: T) -> y: T", "T: floattype", shape=unchanged)
define("BesselY0, BesselY1(x: T) -> y: T", "T: floattype", shape=unchanged)


# Functions defined by integrals, and quantiles of normal numbers.

define("Erfinv, Ndtri(x: T) -> y: T", "T: floattype", shape=unchanged)
define("Dawsn, Expint, FresnelCos, FresnelSin, Spence(x: T) -> y: T", "T: floattype", shape=unchanged)
