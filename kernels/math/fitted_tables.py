"""The polynomials of `fitted.py`: made once a process and function, from SciPy's values.

Between its bounds a smooth function is cut into pieces, each a polynomial through its values at the Chebyshev
points.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array

HOST: Final = "made once from SciPy's values, whatever arrays they are used for"

#: Pieces, and the degree in each: of the functions here 1e-15 of the greatest value is lost.
PIECES: Final = 64
DEGREE: Final = 10
#: From here on the auxiliary functions of Fresnel's are taken from the first terms of their expansions.
_FAR: Final = 60.0

Function: TypeAlias = Callable[[Array], Any]


@functools.lru_cache(maxsize=16)
def coefficients(function: Function, lower: float, upper: float) -> Any:
    """Of each piece the polynomial in [-1, 1], highest power first: (degree + 1, pieces)."""
    degree = np.arange(DEGREE + 1)
    points = np.cos(np.pi * (degree + 0.5) / (DEGREE + 1))
    ends = np.linspace(lower, upper, PIECES + 1)
    middle, half = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    with np.errstate(all="ignore"):
        values = function((middle + half * points[:, None]).reshape(-1)).reshape(len(points), PIECES)
    return np.linalg.solve(np.vander(points), values)


def dawson_scaled(y: Array) -> Any:
    """D(x) / (x y^2) by y = 4 / (4 + x): between 1/32 and 1."""
    from scipy.special import dawsn

    x = 4 / y - 4
    return np.where(x > 1e-8, dawsn(x) / x, 1.0) / (y * y)


def _auxiliary(x: Array) -> tuple[Array, Array]:
    """(f, g) with S = 1/2 - f cos(pi x^2/2) - g sin(pi x^2/2) and C = 1/2 + f sin(..) - g cos(..)."""
    from scipy.special import fresnel

    s, c = fresnel(x)
    angle = np.pi / 2 * x * x
    f = (0.5 - s) * np.cos(angle) - (0.5 - c) * np.sin(angle)
    g = (0.5 - c) * np.cos(angle) + (0.5 - s) * np.sin(angle)
    w = np.pi * x * x
    far_f = (1 - 3 / w**2 + 105 / w**4) / (np.pi * x)
    far_g = (1 - 15 / w**2 + 945 / w**4) / (np.pi * x * w)
    return np.where(x < _FAR, f, far_f), np.where(x < _FAR, g, far_g)


def fresnel_f_scaled(y: Array) -> Any:
    """f / y by y = 2 / (2 + x)."""
    return _auxiliary(2 / y - 2)[0] / y


def fresnel_g_scaled(y: Array) -> Any:
    """g / y^3 by y = 2 / (2 + x)."""
    return _auxiliary(2 / y - 2)[1] / y**3


def fresnel_sine_near(z: Array) -> Any:
    """S(x) / x^3 by z = x^4."""
    from scipy.special import fresnel

    x = np.maximum(z, 1e-40) ** 0.25
    return fresnel(x)[0] / x**3


def fresnel_cosine_near(z: Array) -> Any:
    """C(x) / x by z = x^4."""
    from scipy.special import fresnel

    x = np.maximum(z, 1e-40) ** 0.25
    return fresnel(x)[1] / x


def spence_scaled(z: Array) -> Any:
    """The integral from 1 to z over 1 - z: 1 at 1."""
    from scipy.special import spence

    return np.where(z == 1, 1.0, spence(z) / (1 - z))


__all__ = [
    "DEGREE",
    "PIECES",
    "Function",
    "coefficients",
    "dawson_scaled",
    "fresnel_cosine_near",
    "fresnel_f_scaled",
    "fresnel_g_scaled",
    "fresnel_sine_near",
    "spence_scaled",
]
