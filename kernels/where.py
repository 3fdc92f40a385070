"""Where: the coordinates of what is not zero."""

from __future__ import annotations

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel


@kernel("Where", fresh=True)
def where(x: Value) -> Array:
    """Coordinates of the true (or non-zero) elements in row-major order, (count, rank) int64.

    Raises InvalidArgumentError for a scalar.
    """
    if not x.ndim:
        raise InvalidArgumentError("Where needs an input of rank 1 or more, not a scalar")
    if x.ndim == 1:
        positions: Array = x.nonzero()[0]
        return positions.reshape(-1, 1)
    found = x.nonzero()
    out = np.empty((len(found[0]), x.ndim), np.int64)
    for axis, coordinates in enumerate(found):
        out[:, axis] = coordinates
    return out
