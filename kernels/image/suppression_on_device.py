"""Suppression of boxes on a device: overlaps are computed there, which box stays is decided by the host.

A box stays or not by those that stay before it, one after another: no work for a device. So a kernel of these
looks at its values: at which pairs of boxes are close to each other, some rows of boxes at a time, and no
further once enough have been chosen. Overlaps are those of `numpy/order/suppression.py`, to the bit.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common.host_vectors import vector

#: Pairs of boxes that are compared at a time.
_PAIRS: Final = 1 << 22


def chosen_on_device(
    xp: Any, boxes: Array, scores: Array, limit: int, ratio: float, threshold: float
) -> Array:
    """Indices (int32) of at most `limit` boxes above a threshold, none close to a better one.

    boxes    (n, 4): two corners each, (y1, x1, y2, x2), in any order
    scores   (n,); of one score the first box comes first, NaN comes last
    """
    numbers = scores.astype(np.float32)
    order = xp.negative(numbers).argsort(kind="stable")
    count = len(numbers)
    if threshold != -np.inf and count:
        count = int((numbers > threshold).sum())  # they come first
        order = order[:count]
    edges = _edges(xp, boxes.astype(np.float32).take(order, 0))
    stays = bytearray(b"\1") * count
    chosen: list[int] = []
    rows = max(_PAIRS // max(count, 1), 1)
    for start in range(0, count, rows):
        if len(chosen) >= limit:
            break
        close = _close(xp, edges, start, min(start + rows, count), np.float32(ratio))
        better, worse = (places.tolist() for places in close.nonzero())
        at = 0
        for box in range(start, min(start + rows, count)):
            is_chosen = bool(stays[box]) and len(chosen) < limit
            if is_chosen:
                chosen.append(box)
            # Pairs come by their better box.
            while at < len(better) and better[at] == box - start:
                if is_chosen:
                    stays[start + worse[at]] = 0
                at += 1
    places: Array = order.take(xp.asarray(vector(chosen, np.int64))).astype(np.int32)
    return places


def _edges(xp: Any, corners: Array) -> Array:
    """Boxes (n, 4) as rows: top, left, bottom, right, area; (5, n)."""
    rows = xp.ascontiguousarray(corners.T)
    edges: Array = xp.empty((5, len(corners)), np.float32)
    edges[:2] = xp.minimum(rows[:2], rows[2:])
    edges[2:4] = xp.maximum(rows[:2], rows[2:])
    extents = edges[2:4] - edges[:2]
    edges[4] = extents[0] * extents[1]
    return edges


def _close(xp: Any, edges: Array, start: int, stop: int, ratio: Any) -> Array:
    """Which of the boxes from `start` to `stop` overlap by a ratio with which behind it, from `start` on."""
    a, b = edges[:, start:stop, None], edges[:, None, start:]
    extents = xp.minimum(a[2:4], b[2:4])
    extents -= xp.maximum(a[:2], b[:2])
    extents = xp.maximum(extents, np.float32(0))
    overlap = extents[0] * extents[1]
    union = a[4] + b[4]
    union -= overlap
    # A box without area overlaps by 0, and has nothing to divide by.
    is_empty = xp.logical_or(a[4] <= 0, b[4] <= 0)
    overlap = xp.where(is_empty, np.float32(0), overlap / xp.where(is_empty, np.float32(1), union))
    behind = xp.arange(stop - start)[:, None] < xp.arange(edges.shape[1] - start)
    close: Array = xp.logical_and(overlap >= ratio, behind)
    return close


__all__ = ["chosen_on_device"]
