"""The larger or the smaller of slices of variables and updates."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample
from tests.oprecords.scatters import scattered_nd

_M = np.arange(12.0).reshape(4, 3) - 3
_SAMPLES: Final = [
    sample(_M, [[2, 1], [0, 0], [2, 1]], [5.0, -7.0, 6.0]),
    sample(_M, [[3], [1]], [[4.0, 50.0, -6.0], [0.0, -1.0, 2.0]]),
]
_BAD: Final = [bad("InvalidArgumentError", "4", _M, [[4, 0]], [1.0])]

RECORDS: Final = [
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
