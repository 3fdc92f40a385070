"""Special functions: error function, gamma and its relatives, Bessel functions.

SciPy computes them and is imported when the first of them runs: it would dominate the import time.
"""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array
from flowengine.kernels.ufuncs import float_kernel


def _special() -> Any:
    import scipy.special

    return scipy.special


@float_kernel("Erf", fresh=True)
def erf(xp: Any, x: Array) -> Any:
    return _special().erf(x)


@float_kernel("Erfc", fresh=True)
def erfc(xp: Any, x: Array) -> Any:
    return _special().erfc(x)


@float_kernel("Lgamma", fresh=True)
def lgamma(xp: Any, x: Array) -> Any:
    """log |gamma(x)|."""
    return _special().gammaln(x)


@float_kernel("Digamma", fresh=True)
def digamma(xp: Any, x: Array) -> Any:
    """The derivative of `Lgamma`; infinite at its poles."""
    pole = xp.logical_and(xp.less_equal(x, 0), xp.equal(x, xp.floor(x)))
    return xp.where(pole, x.dtype.type("inf"), _special().digamma(x))


@float_kernel("BesselI0e", fresh=True)
def bessel_i0e(xp: Any, x: Array) -> Any:
    return _special().i0e(x)


@float_kernel("BesselI1e", fresh=True)
def bessel_i1e(xp: Any, x: Array) -> Any:
    return _special().i1e(x)


@float_kernel("Igamma", fresh=True)
def igamma(xp: Any, a: Array, x: Array) -> Any:
    """The regularised lower incomplete gamma function; NaN where a <= 0 or x < 0."""
    return xp.where(_outside(xp, a, x), a.dtype.type("nan"), _special().gammainc(a, x))


@float_kernel("Igammac", fresh=True)
def igammac(xp: Any, a: Array, x: Array) -> Any:
    """1 - Igamma."""
    return xp.where(_outside(xp, a, x), a.dtype.type("nan"), _special().gammaincc(a, x))


def _outside(xp: Any, a: Array, x: Array) -> Any:
    return xp.logical_or(xp.less_equal(a, 0), xp.less(x, 0))


@float_kernel("Zeta", fresh=True)
def zeta(xp: Any, x: Array, q: Array) -> Any:
    """The Hurwitz zeta function."""
    return _special().zeta(x, q)


@float_kernel("Polygamma", fresh=True)
def polygamma(xp: Any, a: Array, x: Array) -> Any:
    """The a-th derivative of digamma; NaN where a is no natural number."""
    special = _special()
    sign = xp.where(xp.equal(xp.fmod(a, 2), 0), a.dtype.type(-1), a.dtype.type(1))
    order = xp.add(a, a.dtype.type(1))
    higher = sign * special.gamma(order) * special.zeta(order, x)
    natural = xp.logical_and(xp.greater_equal(a, 0), xp.equal(a, xp.floor(a)))
    return xp.where(
        xp.equal(a, 0), special.digamma(x), xp.where(natural, higher, a.dtype.type("nan"))
    ).astype(a.dtype)


@float_kernel("Betainc", fresh=True)
def betainc(xp: Any, a: Array, b: Array, x: Array) -> Any:
    """The regularised incomplete beta function."""
    return _special().betainc(a, b, x)
