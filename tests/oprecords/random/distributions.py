"""Gamma- and Poisson-distributed numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
from scipy import special

from tests.oprecords.elementwise import binary
from tests.oprecords.record import sample

# Poisson-distributed numbers.

#: {why they have no record: ops}


# Gamma-distributed numbers.

_ALPHA: Final = [0.3, 0.5, 1.0, 3.0, 20.0, 3.0, 0.5, 20.0]
_NUMBER: Final = [0.2, 0.5, 1.0, 2.5, 18.0, 9.0, 4.0, 35.0]


def _grad(alpha: Any, number: Any) -> Any:
    """How the quantile of the same share moves, by differences, extrapolated."""
    share, rest = special.gammainc(alpha, number), special.gammaincc(alpha, number)

    def at(a: Any) -> Any:
        return np.where(share < 0.5, special.gammaincinv(a, share), special.gammainccinv(a, rest))

    h = 0.04
    rows = [(at(alpha + h / 2**i) - at(alpha - h / 2**i)) * 2**i / (2 * h) for i in range(5)]
    for order in (4, 16, 64, 256):
        rows = [(order * b - c) / (order - 1) for c, b in pairwise(rows)]
    return rows[0]


_OF_GAMMA: Final = [
    binary(
        "RandomGammaGrad",
        _grad,
        [sample(_ALPHA, _NUMBER), sample([[1.0], [2.0]], [0.5, 1.5]), sample(np.ones((0,)), 2.0)],
        loose=3000,
        differentiable=False,
    )
]

#: {why they have no record: ops}


RECORDS: Final = [*_OF_GAMMA]

EXCUSED: Final = {
    "random with parts that are not: tests/kernels, tests/conformance": """
        RandomPoisson RandomPoissonV2 StatelessRandomPoisson RandomGamma StatelessRandomGammaV2
        StatelessRandomGammaV3
    """,
}
