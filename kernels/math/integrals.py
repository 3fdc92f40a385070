"""Functions defined by integrals: Dawson's, exponential, Fresnel's, Spence's; quantiles of normal numbers.

What CuPy's special functions lack is fitted to SciPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, is_numpy
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.math import fitted
from flowengine.kernels.math.special import special_functions


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
