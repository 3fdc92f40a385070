"""Functions that SciPy has and CuPy lacks, for arrays of any library: polynomials through SciPy's values.

    fitted(xp, function, lower, upper, x)     # function(x) between the bounds

The host makes the polynomials (`fitted_tables.py`), independently of values; a device looks up the
coefficients of the piece that each element is in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.math import fitted_tables
from flowengine.kernels.math.fitted_tables import DEGREE, PIECES, Function, coefficients


def fitted(xp: Any, function: Function, lower: float, upper: float, x: Array) -> Any:
    """Evaluate a function at float64 numbers, which are taken to lie between the bounds."""
    place = (x - lower) * (PIECES / (upper - lower))
    # What is no number has any place; it is one in the polynomial's argument again.
    piece = xp.clip(xp.where(xp.isnan(place), 0.0, xp.floor(place)), 0, PIECES - 1)
    inside = 2 * (place - piece) - 1
    index = piece.astype(np.int32)
    table = xp.asarray(coefficients(function, lower, upper))
    total = table[0].take(index)
    for row in range(1, DEGREE + 1):
        total = total * inside + table[row].take(index)
    return total


def dawson(xp: Any, x: Array) -> Any:
    """Dawson's integral of float64 numbers: odd."""
    y = 4 / (4 + xp.abs(x))
    # Far out x y goes to 4, where x is infinite, too.
    x_y = xp.where(xp.isinf(x), xp.sign(x) * 4, x * y)
    return fitted(xp, fitted_tables.dawson_scaled, 0.0, 1.0, y) * x_y * y


def fresnel_integrals(xp: Any, x: Array) -> tuple[Any, Any]:
    """(S, C), the integrals of sin and cos of pi t^2 / 2 from 0 to x: odd, 1/2 at infinity."""
    size = xp.abs(x)
    y = 2 / (2 + size)
    # Whole turns are left out before pi comes in: x^2/2 is to be seen modulo 2.
    is_near = size < 1
    finite = xp.where(xp.isinf(size), 0.0, size)
    angle = np.pi * xp.fmod(finite * finite / 2, 2.0)
    sine, cosine = xp.sin(angle), xp.cos(angle)
    f = fitted(xp, fitted_tables.fresnel_f_scaled, 0.0, 1.0, y) * y
    g = fitted(xp, fitted_tables.fresnel_g_scaled, 0.0, 1.0, y) * (y * y * y)
    fourth = xp.where(is_near, size * size * size * size, 0.0)
    near_s = fitted(xp, fitted_tables.fresnel_sine_near, 0.0, 1.0, fourth) * (size * size * size)
    near_c = fitted(xp, fitted_tables.fresnel_cosine_near, 0.0, 1.0, fourth) * size
    s = xp.where(is_near, near_s, 0.5 - f * cosine - g * sine)
    c = xp.where(is_near, near_c, 0.5 + f * sine - g * cosine)
    return xp.sign(x) * s, xp.sign(x) * c


def spence_integral(xp: Any, z: Array) -> Any:
    """The integral of log(t) / (1 - t) from 1 to z of float64 numbers; NaN below 0 and at infinity.

    From beyond 3/2 it is led back to 1/z, and from below 1/2 to 1 - z.
    """
    inside = xp.logical_and(z >= 0, xp.isfinite(z))
    z = xp.where(inside, z, 1.0)
    is_large = z > 1.5
    lower = xp.where(is_large, 1 / z, z)
    is_small = lower < 0.5
    at = xp.where(is_small, 1 - lower, lower)
    found = fitted(xp, fitted_tables.spence_scaled, 0.5, 1.5, at) * (1 - at)
    # log(z) log(1 - z) goes to 0 with z.
    logarithms = xp.log(xp.where(lower > 0, lower, 1.0)) * xp.log(xp.where(is_small, at, 1.0))
    found = xp.where(is_small, np.pi**2 / 6 - logarithms - found, found)
    logarithm = xp.log(xp.where(is_large, z, 1.0))
    found = xp.where(is_large, -found - logarithm * logarithm / 2, found)
    return xp.where(inside, found, np.nan)


__all__ = ["dawson", "fitted", "fresnel_integrals", "spence_integral"]
