"""Rows of indices in order, without a look at one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: A product of dimensions must be below this.
INT64_END: Final = 2**63


def ranks_of_rows(xp: Any, every: Array) -> Array:
    """Return each row's rank among all distinct rows, which fits into 64 bits whatever the dimensions."""
    order = order_of_rows(xp, every)
    ordered = every.take(order, 0)
    ranks: Array = xp.empty(len(every), np.int64)
    differs = (ordered[1:] != ordered[:-1]).any(1)
    ranks[order] = xp.cumsum(xp.concatenate([xp.zeros(min(len(every), 1), np.bool_), differs]))
    return ranks


def order_of_rows(xp: Any, every: Array) -> Array:
    """Return the order of rows of indices, equal ones as they come, without looking at a value."""
    order: Array = (
        xp.lexsort(xp.ascontiguousarray(every.T[::-1])) if every.shape[1] else xp.arange(len(every))
    )
    return order


__all__ = ["INT64_END", "order_of_rows", "ranks_of_rows"]
