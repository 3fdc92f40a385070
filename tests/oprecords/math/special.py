"""Special functions: error function, gamma, Bessel functions, functions defined by integrals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
from scipy import special

from tests.oprecords.elementwise import POSITIVE_PAIRS, binary, unary
from tests.oprecords.record import OpRecord, sample

# Special functions: error function, gamma and its relatives, Bessel functions.

POSITIVE = [sample(0.75), sample([0.25, 0.5, 1.0, 1.5, 2.5, 7.0, 100.0]), sample(np.zeros((0, 3)))]

_GAMMA_PAIRS: Final = [
    sample([0.1, 0.5, 1.0, 3.0, 20.0, 3.0, 0.5, 20.0], [0.05, 0.5, 1.0, 2.5, 18.0, 9.0, 4.0, 35.0]),
    sample([-1.0, 2.0, 2.0], [1.0, -1.0, 0.0]),
    sample(np.ones((0,)), 2.0),
]


def _igamma_grad_a(a: Any, x: Any) -> Any:
    """By differences of the function, extrapolated."""

    def slope(step: float) -> Any:
        return (special.gammainc(a + step, x) - special.gammainc(a - step, x)) / (2 * step)

    h = 0.02
    rows = [slope(h / 2**i) for i in range(4)]
    for order in (4, 16, 64):
        rows = [(order * b - c) / (order - 1) for c, b in pairwise(rows)]
    return np.where((a <= 0) | (x < 0), np.nan, rows[0])


_OF_SPECIAL: Final = [
    binary("Igamma", special.gammainc, POSITIVE_PAIRS, loose=5),
    binary("Igammac", special.gammaincc, POSITIVE_PAIRS, loose=5),
    binary("IgammaGradA", _igamma_grad_a, _GAMMA_PAIRS, loose=100, differentiable=False),
    binary(
        "Zeta",
        special.zeta,
        [sample([2.0, 3.0], [1.0, 0.5]), sample(np.ones((0,)), 1.0)],
        loose=5,
        differentiable=("q",),
    ),
    binary(
        "Polygamma",
        lambda n, x: special.polygamma(n.astype(int), x),
        [sample([1.0, 2.0], [1.5, 0.5])],
        loose=20,
        differentiable=("x",),
    ),
    OpRecord(
        "Betainc",
        [sample([1.0, 2.0], [2.0, 0.5], [0.25, 0.75]), sample(np.ones((0,)), np.ones((0,)), np.ones((0,)))],
        special.betainc,
        loose=10,
        differentiable=("x",),
    ),
    unary("Erf", special.erf),
    unary("Erfc", special.erfc),
    unary("Lgamma", special.gammaln, POSITIVE, loose=2),
    unary("Digamma", special.digamma, POSITIVE, loose=2),
    unary("BesselI0e", special.i0e),
    unary("BesselI1e", special.i1e),
]


# Bessel functions of order 0 and 1.

_X_BESSEL: Final = [
    sample([-2.5, -1.0, -0.25, 0.25, 0.5, 1.0, 3.0, 7.5]),
    sample(1.5),
    sample(np.zeros((0, 3))),
]


def _from_zero(function: Callable[..., Any], below: float) -> Callable[..., Any]:
    return lambda x: np.where(x < 0, below, function(x))


_OF_BESSEL: Final = [
    *(
        unary(f"Bessel{name.upper()}", getattr(special, name), _X_BESSEL, loose=20)
        for name in ("i0", "i1", "j0", "j1")
    ),
    *(
        unary(f"BesselK{name[1:]}", _from_zero(getattr(special, name), np.inf), _X_BESSEL, loose=20)
        for name in ("k0", "k0e", "k1", "k1e")
    ),
    *(
        unary(f"Bessel{name.upper()}", _from_zero(getattr(special, name), -np.inf), _X_BESSEL, loose=20)
        for name in ("y0", "y1")
    ),
]


# Functions defined by integrals, and quantiles of normal numbers.

_X_INTEGRALS: Final = [
    sample([-2.5, -1.0, -0.25, 0.0, 0.5, 1.0, 3.0]),
    sample(0.75),
    sample(np.zeros((0, 3))),
]
_SHARES: Final = [sample([-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5]), sample(0.125), sample(np.zeros((0,)))]


def _expint(x: Any) -> Any:
    return np.where(x < 0, np.nan, special.expi(x))


_OF_INTEGRALS: Final = [
    unary("Erfinv", special.erfinv, _SHARES, loose=5),
    unary("Ndtri", special.ndtri, _SHARES, loose=5),
    unary("Expint", _expint, _X_INTEGRALS, loose=5),
    unary("Dawsn", special.dawsn, _X_INTEGRALS, loose=5),
    unary("FresnelCos", lambda x: special.fresnel(x)[1], _X_INTEGRALS, loose=5),
    unary("FresnelSin", lambda x: special.fresnel(x)[0], _X_INTEGRALS, loose=5),
    unary("Spence", special.spence, _X_INTEGRALS, loose=5),
]


RECORDS: Final = [*_OF_SPECIAL, *_OF_BESSEL, *_OF_INTEGRALS]
