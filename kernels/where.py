"""Where: the coordinates of what is not zero."""

from __future__ import annotations

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.kernels.registry import kernel


@kernel("Where", fresh=True)
def where(x: Value) -> Array:
    """Coordinates of the true (or non-zero) elements in row-major order, (count, rank) int64."""
    if not x.ndim:
        return np.empty((1 if x else 0, 0), np.int64)
    if x.ndim == 1:
        positions: Array = x.nonzero()[0]
        return positions.reshape(-1, 1)
    found = x.nonzero()
    out = np.empty((len(found[0]), x.ndim), np.int64)
    for axis, coordinates in enumerate(found):
        out[:, axis] = coordinates
    return out
