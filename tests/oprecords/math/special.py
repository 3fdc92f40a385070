"""Special functions: error function, gamma and its relatives, Bessel functions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
from scipy import special

from tests.oprecords.elementwise import POSITIVE_PAIRS, binary, unary
from tests.oprecords.record import OpRecord, sample

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


RECORDS: Final = [
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
