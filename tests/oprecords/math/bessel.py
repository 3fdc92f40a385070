"""Bessel functions of order 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from scipy import special

from tests.oprecords.elementwise import unary
from tests.oprecords.record import sample

_X: Final = [sample([-2.5, -1.0, -0.25, 0.25, 0.5, 1.0, 3.0, 7.5]), sample(1.5), sample(np.zeros((0, 3)))]


def _from_zero(function: Callable[..., Any], below: float) -> Callable[..., Any]:
    return lambda x: np.where(x < 0, below, function(x))


RECORDS: Final = [
    *(
        unary(f"Bessel{name.upper()}", getattr(special, name), _X, loose=20)
        for name in ("i0", "i1", "j0", "j1")
    ),
    *(
        unary(f"BesselK{name[1:]}", _from_zero(getattr(special, name), np.inf), _X, loose=20)
        for name in ("k0", "k0e", "k1", "k1e")
    ),
    *(
        unary(f"Bessel{name.upper()}", _from_zero(getattr(special, name), -np.inf), _X, loose=20)
        for name in ("y0", "y1")
    ),
]
