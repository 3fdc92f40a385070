"""Functions defined by integrals, and quantiles of normal numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scipy import special

from tests.oprecords.elementwise import unary
from tests.oprecords.record import sample

_X: Final = [sample([-2.5, -1.0, -0.25, 0.0, 0.5, 1.0, 3.0]), sample(0.75), sample(np.zeros((0, 3)))]
_SHARES: Final = [sample([-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5]), sample(0.125), sample(np.zeros((0,)))]


def _expint(x: Any) -> Any:
    return np.where(x < 0, np.nan, special.expi(x))


RECORDS: Final = [
    unary("Erfinv", special.erfinv, _SHARES, loose=5),
    unary("Ndtri", special.ndtri, _SHARES, loose=5),
    unary("Expint", _expint, _X, loose=5),
    unary("Dawsn", special.dawsn, _X, loose=5),
    unary("FresnelCos", lambda x: special.fresnel(x)[1], _X, loose=5),
    unary("FresnelSin", lambda x: special.fresnel(x)[0], _X, loose=5),
    unary("Spence", special.spence, _X, loose=5),
]
