"""The greatest or least elements along an axis. An accelerator may miss some; here none is missed."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.nn.sorting import check_top, descending
from flowengine.kernels.registry import kernel


@kernel("ApproxTopK", fresh=True)
def approx_top_k(xp: Any, x: Array, *, k: int, reduction_dimension: int, is_max_k: bool) -> Any:
    """The k greatest along an axis (or least), the best first, and where they are (int32)."""
    if not -x.ndim <= reduction_dimension < x.ndim:
        raise InvalidArgumentError(
            f"reduction_dimension must be in [{-x.ndim}, {x.ndim}), but is {reduction_dimension}"
        )
    rows = xp.moveaxis(x, reduction_dimension, -1)
    check_top(rows, k)
    places = descending(xp, rows if is_max_k else -rows)[..., :k]
    values = xp.take_along_axis(rows, places, axis=-1)
    found = values, places.astype(np.int32)
    return tuple(xp.ascontiguousarray(xp.moveaxis(each, -1, reduction_dimension)) for each in found)
