"""Coordinates of flat positions by NumPy's own function."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.kernels.array import search
from flowengine.kernels.registry import kernel


@kernel("UnravelIndex", device="CPU", fresh=True, host=("dims",))
def unravel_index(indices: Value, dims: Array) -> Any:
    """(N,) or () flat positions -> (rank, N) or (rank,) coordinates in an array of shape `dims`."""
    positions, shape = search.checked_positions(indices, dims)
    if positions.min(initial=0) < 0:
        return search.unravel_index(np, indices, dims)
    out = np.empty((len(shape), *positions.shape), positions.dtype)
    for axis, coordinates in enumerate(np.unravel_index(positions, shape)):
        out[axis] = coordinates
    return out
