"""Updates of rows and slices of variables."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample
from tests.oprecords.scatters import at, scattered, scattered_nd

# Updates of rows of variables.

_M = np.arange(12.0).reshape(4, 3) - 3
_ROWS = [
    sample(_M, [2, 0, 2], np.ones((3, 3)) * 2),
    sample(_M, [[1], [3]], np.ones((2, 1, 3)) * 3),
    sample(_M, 1, 2.0),
]
_ND = [sample(_M, [[2, 1], [0, 0]], [5.0, 7.0]), sample(_M, [[3]], [[4.0, 5.0, 6.0]])]
_BAD_ROWS = [
    bad("InvalidArgumentError", "4", _M, [4], np.ones((1, 3))),
    bad("InvalidArgumentError", "", _M, [1], np.ones((2, 3))),
]
_BAD_ND = [bad("InvalidArgumentError", "4", _M, [[4, 0]], [1.0])]
_UFUNCS = {
    "Update": None,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Min": np.minimum,
    "Max": np.maximum,
}
_WIDE = ("float32", "float64", "float16")


def _scatters() -> list[OpRecord]:
    found = []
    for name, ufunc in _UFUNCS.items():
        found.append(
            OpRecord(f"Scatter{name}", _ROWS, scattered(ufunc), _BAD_ROWS, {"T": _WIDE}, updates=True)
        )
        found.append(
            OpRecord(
                f"ResourceScatter{name}",
                _ROWS,
                scattered(ufunc),
                _BAD_ROWS[:1],
                {"dtype": _WIDE},
                updates=True,
            )
        )
    for name in ("Update", "Add", "Sub"):
        reference = scattered_nd(_UFUNCS[name])
        found += [
            OpRecord(prefix + name, _ND, reference, _BAD_ND, {"T": _WIDE}, updates=True)
            for prefix in ("ScatterNd", "ResourceScatterNd")
        ]
    return found


_OF_SCATTER: Final = [
    OpRecord(
        "ResourceGather",
        [sample(_M, [2, 0])],
        lambda p, i: p[i],
        [bad("InvalidArgumentError", "4", _M, [4])],
        {"dtype": MOVED},
    ),
    OpRecord(
        "ResourceGatherNd",
        [sample(_M, [[2, 0], [1, 1]])],
        lambda p, i: p[at(i)],
        [bad("InvalidArgumentError", "4", _M, [[4, 0]])],
        {"dtype": MOVED},
    ),
    *_scatters(),
]


# The larger or the smaller of slices of variables and updates.

_M_SCATTER_EXTREMES = np.arange(12.0).reshape(4, 3) - 3
_SAMPLES: Final = [
    sample(_M_SCATTER_EXTREMES, [[2, 1], [0, 0], [2, 1]], [5.0, -7.0, 6.0]),
    sample(_M_SCATTER_EXTREMES, [[3], [1]], [[4.0, 50.0, -6.0], [0.0, -1.0, 2.0]]),
]
_BAD: Final = [bad("InvalidArgumentError", "4", _M_SCATTER_EXTREMES, [[4, 0]], [1.0])]

_OF_SCATTER_EXTREMES: Final = [
    OpRecord(
        prefix + name,
        _SAMPLES,
        scattered_nd(ufunc),
        _BAD,
        {"T": ("float32", "float64", "float16", "int32")},
        updates=True,
    )
    for name, ufunc in (("Max", np.maximum), ("Min", np.minimum))
    for prefix in ("ScatterNd", "ResourceScatterNd")
]


RECORDS: Final = [*_OF_SCATTER, *_OF_SCATTER_EXTREMES]
