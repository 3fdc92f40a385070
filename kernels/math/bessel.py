"""Bessel functions of order 0 and 1, of the first (J, I) and the second kind (Y, K); `e`: scaled by exp."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.math.special import special_functions


@float_kernel("BesselI0", fresh=True)
def bessel_i0(xp: Any, x: Array) -> Any:
    return special_functions(xp).i0(x)


@float_kernel("BesselI1", fresh=True)
def bessel_i1(xp: Any, x: Array) -> Any:
    return special_functions(xp).i1(x)


@float_kernel("BesselJ0", fresh=True)
def bessel_j0(xp: Any, x: Array) -> Any:
    return special_functions(xp).j0(x)


@float_kernel("BesselJ1", fresh=True)
def bessel_j1(xp: Any, x: Array) -> Any:
    return special_functions(xp).j1(x)


def _from_zero(xp: Any, value: Array, x: Array, below: str) -> Any:
    """The value, and below 0 what it goes to there."""
    return xp.where(xp.less(x, 0), x.dtype.type(below), value)


@float_kernel("BesselK0", fresh=True)
def bessel_k0(xp: Any, x: Array) -> Any:
    return _from_zero(xp, special_functions(xp).k0(x), x, "inf")


@float_kernel("BesselK0e", fresh=True)
def bessel_k0e(xp: Any, x: Array) -> Any:
    return _from_zero(xp, special_functions(xp).k0e(x), x, "inf")


@float_kernel("BesselK1", fresh=True)
def bessel_k1(xp: Any, x: Array) -> Any:
    return _from_zero(xp, special_functions(xp).k1(x), x, "inf")


@float_kernel("BesselK1e", fresh=True)
def bessel_k1e(xp: Any, x: Array) -> Any:
    return _from_zero(xp, special_functions(xp).k1e(x), x, "inf")


@float_kernel("BesselY0", fresh=True)
def bessel_y0(xp: Any, x: Array) -> Any:
    return _from_zero(xp, special_functions(xp).y0(x), x, "-inf")


@float_kernel("BesselY1", fresh=True)
def bessel_y1(xp: Any, x: Array) -> Any:
    return _from_zero(xp, special_functions(xp).y1(x), x, "-inf")
