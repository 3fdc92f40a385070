"""Special functions: error function, gamma, Bessel functions, functions defined by integrals."""

from __future__ import annotations

import importlib
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, is_numpy
from flowengine.kernels.common import gamma_derivatives
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.math import fitted
from flowengine.kernels.registry import kernel

# Special functions: error function, gamma and its relatives, Bessel functions.
#
# SciPy computes them and is imported when the first of them runs: it would dominate the import time.


def special_functions(xp: Any) -> Any:
    """The special functions for arrays of this module: its own `special`, for NumPy's those of SciPy.

    A module without has them beside it, as `cupy` does in `cupyx.scipy.special`.
    """
    if is_numpy(xp):
        import scipy.special

        return scipy.special
    own = getattr(xp, "special", None)
    return importlib.import_module(f"{xp.__name__}x.scipy.special") if own is None else own


#: erf(x) = x p(x^2) / q(x^2) for |x| <= 4, beyond which a float32 is 1: coefficients from the highest down.
_ERF_P: Final = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
_ERF_Q: Final = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)
#: Elements from which float32 is computed so, and how many at a time.
_ERF_MIN: Final = 1 << 10
_ERF_BLOCK: Final = 1 << 14


@float_kernel("Erf", fresh=True)
def erf(xp: Any, x: Array) -> Any:
    """The error function, odd, from -1 to 1."""
    if x.dtype != np.float32 or x.size < _ERF_MIN or not is_numpy(xp):
        return special_functions(xp).erf(x)
    result = xp.empty(x.shape, x.dtype)
    source, target = xp.ascontiguousarray(x).reshape(-1), result.reshape(-1)
    for start in range(0, source.size, _ERF_BLOCK):
        part = slice(start, start + _ERF_BLOCK)
        z = xp.clip(source[part], -4, 4)
        square = xp.square(z)
        z *= _polynomial(xp, _ERF_P, square)
        xp.divide(z, _polynomial(xp, _ERF_Q, square), target[part])
    return result


def _polynomial(xp: Any, coefficients: tuple[float, ...], x: Array) -> Any:
    """Horner's rule, coefficients from the highest down."""
    value = xp.multiply(x, coefficients[0])
    for coefficient in coefficients[1:-1]:
        value += coefficient
        value *= x
    value += coefficients[-1]
    return value


@float_kernel("Erfc", fresh=True)
def erfc(xp: Any, x: Array) -> Any:
    return special_functions(xp).erfc(x)


@float_kernel("Lgamma", fresh=True)
def lgamma(xp: Any, x: Array) -> Any:
    """log |gamma(x)|."""
    return special_functions(xp).gammaln(x)


@float_kernel("Digamma", fresh=True)
def digamma(xp: Any, x: Array) -> Any:
    """The derivative of `Lgamma`; infinite at its poles."""
    pole = xp.logical_and(xp.less_equal(x, 0), xp.equal(x, xp.floor(x)))
    return xp.where(pole, x.dtype.type("inf"), special_functions(xp).digamma(x))


@float_kernel("BesselI0e", fresh=True)
def bessel_i0e(xp: Any, x: Array) -> Any:
    return special_functions(xp).i0e(x)


@float_kernel("BesselI1e", fresh=True)
def bessel_i1e(xp: Any, x: Array) -> Any:
    return special_functions(xp).i1e(x)


@float_kernel("Igamma", fresh=True)
def igamma(xp: Any, a: Array, x: Array) -> Any:
    """The regularised lower incomplete gamma function; NaN where a <= 0 or x < 0."""
    return xp.where(_outside(xp, a, x), a.dtype.type("nan"), special_functions(xp).gammainc(a, x))


@float_kernel("Igammac", fresh=True)
def igammac(xp: Any, a: Array, x: Array) -> Any:
    """1 - Igamma."""
    return xp.where(_outside(xp, a, x), a.dtype.type("nan"), special_functions(xp).gammaincc(a, x))


@kernel("IgammaGradA", fresh=True, heavy=lambda a, x: (a.size + x.size) * 1.0)
def igamma_grad_a(xp: Any, a: Array, x: Array) -> Any:
    """The derivative of Igamma with regard to a."""
    return gamma_derivatives.igamma_grad_a(xp, special_functions(xp), a, x)


def _outside(xp: Any, a: Array, x: Array) -> Any:
    return xp.logical_or(xp.less_equal(a, 0), xp.less(x, 0))


@float_kernel("Zeta", fresh=True)
def zeta(xp: Any, x: Array, q: Array) -> Any:
    """The Hurwitz zeta function."""
    return special_functions(xp).zeta(x, q)


@float_kernel("Polygamma", fresh=True)
def polygamma(xp: Any, a: Array, x: Array) -> Any:
    """The a-th derivative of digamma; NaN where a is no natural number."""
    special = special_functions(xp)
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
    return special_functions(xp).betainc(a, b, x)


# Bessel functions of order 0 and 1, of the first (J, I) and the second kind (Y, K); `e`: scaled by exp.


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


# Functions defined by integrals: Dawson's, exponential, Fresnel's, Spence's; quantiles of normal numbers.
#
# What CuPy's special functions lack is fitted to SciPy's.


@float_kernel("Erfinv", fresh=True)
def erfinv(xp: Any, x: Array) -> Any:
    """The inverse of the error function."""
    return special_functions(xp).erfinv(x)


@float_kernel("Ndtri", fresh=True)
def ndtri(xp: Any, x: Array) -> Any:
    """The quantile of the standard normal distribution."""
    return special_functions(xp).ndtri(x)


@float_kernel("Expint", fresh=True)
def expint(xp: Any, x: Array) -> Any:
    """The exponential integral Ei; NaN, as in TensorFlow, below 0 and for infinity."""
    outside = xp.logical_or(xp.less(x, 0), xp.isinf(x))
    return xp.where(outside, x.dtype.type("nan"), special_functions(xp).expi(x))


@float_kernel("Dawsn", fresh=True)
def dawsn(xp: Any, x: Array) -> Any:
    """Dawson's integral."""
    if is_numpy(xp):
        return special_functions(xp).dawsn(x)
    return fitted.dawson(xp, x.astype(np.float64)).astype(x.dtype)


@float_kernel("FresnelCos", fresh=True)
def fresnel_cos(xp: Any, x: Array) -> Any:
    """The integral of cos(pi t^2 / 2) from 0 to x."""
    if is_numpy(xp):
        return special_functions(xp).fresnel(x)[1]
    return fitted.fresnel_integrals(xp, x.astype(np.float64))[1].astype(x.dtype)


@float_kernel("FresnelSin", fresh=True)
def fresnel_sin(xp: Any, x: Array) -> Any:
    """The integral of sin(pi t^2 / 2) from 0 to x."""
    if is_numpy(xp):
        return special_functions(xp).fresnel(x)[0]
    return fitted.fresnel_integrals(xp, x.astype(np.float64))[0].astype(x.dtype)


@float_kernel("Spence", fresh=True)
def spence(xp: Any, x: Array) -> Any:
    """The integral of log(t) / (1 - t) from 1 to x."""
    if is_numpy(xp):
        return special_functions(xp).spence(x)
    return fitted.spence_integral(xp, x.astype(np.float64)).astype(x.dtype)
