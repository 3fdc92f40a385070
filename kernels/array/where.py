"""Where: the coordinates of what is not zero."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.accounting import ask_for, is_asked
from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel

#: From this length on rows are searched one after another as one line.
_LONG_ROW: Final = 16


@kernel("Where", fresh=True, looks=True)
def where(xp: Any, x: Value) -> Any:
    """Coordinates of the true (or non-zero) elements in row-major order, (count, rank) int64.

    Raises InvalidArgumentError for a scalar.
    """
    if not x.ndim:
        raise InvalidArgumentError("Where needs an input of rank 1 or more, not a scalar")
    if is_asked():
        # What is found is held twice for a moment: as one array an axis, and together.
        ask_for(2 * int(xp.count_nonzero(x)) * x.ndim * np.dtype(np.int64).itemsize)
    if x.ndim == 1:
        positions: Array = x.nonzero()[0]
        return positions.reshape(-1, 1)
    columns = x.shape[-1]
    if columns < _LONG_ROW:
        found = x.nonzero()
        out = xp.empty((len(found[0]), x.ndim), np.int64)
        for axis, coordinates in enumerate(found):
            out[:, axis] = coordinates
        return out
    # numpy's search of several axes takes six times as long as that of one: find the places in the
    # flattened array, count them by row, and repeat each row's coordinates as often.
    flat = x.reshape(-1, columns)
    places = flat.reshape(-1).nonzero()[0]
    counts = xp.count_nonzero(flat, axis=1)
    rows = xp.arange(len(flat))
    out = xp.empty((len(places), x.ndim), np.int64)
    for axis, coordinates in enumerate(xp.unravel_index(rows, x.shape[:-1])):
        out[:, axis] = xp.repeat(coordinates, counts)
    xp.subtract(places, xp.repeat(rows * columns, counts), out=out[:, -1])
    return out
