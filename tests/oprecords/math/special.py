"""Special functions: error function, gamma and its relatives, Bessel functions."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import special

from tests.oprecords.elementwise import POSITIVE_PAIRS, binary, unary
from tests.oprecords.record import OpRecord, sample

POSITIVE = [sample(0.75), sample([0.25, 0.5, 1.0, 1.5, 2.5, 7.0, 100.0]), sample(np.zeros((0, 3)))]

RECORDS: Final = [
    binary("Igamma", special.gammainc, POSITIVE_PAIRS, loose=5),
    binary("Igammac", special.gammaincc, POSITIVE_PAIRS, loose=5),
    binary("Zeta", special.zeta, [sample([2.0, 3.0], [1.0, 0.5]), sample(np.ones((0,)), 1.0)], loose=5),
    binary(
        "Polygamma",
        lambda n, x: special.polygamma(n.astype(int), x),
        [sample([1.0, 2.0], [1.5, 0.5])],
        loose=20,
    ),
    OpRecord(
        "Betainc",
        [sample([1.0, 2.0], [2.0, 0.5], [0.25, 0.75]), sample(np.ones((0,)), np.ones((0,)), np.ones((0,)))],
        special.betainc,
        loose=10,
    ),
    unary("Erf", special.erf),
    unary("Erfc", special.erfc),
    unary("Lgamma", special.gammaln, POSITIVE, loose=2),
    unary("Digamma", special.digamma, POSITIVE, loose=2),
    unary("BesselI0e", special.i0e),
    unary("BesselI1e", special.i1e),
]
