"""Division and remainders."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.elementwise import PAIRS, WITH_ZEROS, binary
from tests.oprecords.record import COMPLEX, FLOATS, REALS, bad

_NO_DIVISOR = bad("InvalidArgumentError", "zero", [1, 2], [1, 0], T="int32")
_NO_DIVISOR_TRUNCATED = bad("InternalError", "zero", [1, 2], [1, 0], T="int32")


def _truncated_div(x: Any, y: Any) -> Any:
    if x.dtype.kind in "iu":
        quotient = np.abs(x.astype(np.int64)) // np.abs(y.astype(np.int64))
        return np.where((x < 0) != (y < 0), -quotient, quotient)
    return np.trunc(x / y) if x.dtype.kind == "f" else x / y


def _div(x: Any, y: Any) -> Any:
    return _truncated_div(x, y) if x.dtype.kind in "iu" else x / y


def _no_nan(x: Any, y: Any) -> Any:
    return np.where(y == 0, 0, x / np.where(y == 0, 1, y))


RECORDS: Final = [
    binary("Div", _div, PAIRS, None, _NO_DIVISOR, loose=2),
    binary("RealDiv", _div, PAIRS, (*FLOATS, *COMPLEX), loose=2),
    binary(
        "FloorDiv",
        lambda x, y: x / y if x.dtype.kind == "c" else np.floor_divide(x, y),
        PAIRS,
        REALS[:-2],
        _NO_DIVISOR,
        differentiable=False,
    ),
    binary(
        "TruncateDiv",
        _truncated_div,
        PAIRS,
        ("int32", "int64", "int8", "int16", "uint8", "uint16"),
        _NO_DIVISOR_TRUNCATED,
        differentiable=False,
    ),
    binary("FloorMod", np.mod, PAIRS, None, _NO_DIVISOR),
    binary("Mod", np.fmod, PAIRS, None, _NO_DIVISOR, differentiable=True),
    binary("TruncateMod", np.fmod, PAIRS, None, _NO_DIVISOR_TRUNCATED, differentiable=True),
    binary("DivNoNan", _no_nan, [*PAIRS, *WITH_ZEROS]),
]
