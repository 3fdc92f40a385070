"""The greatest elements of rows, whether a target is among them, and single order statistics."""

from __future__ import annotations

import heapq
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.falling import MANY, falling_places
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

#: A row is cut before it is sorted where it is this much longer than what is asked for.
_PARTITION_RATIO: Final = 8
#: Any order is right where none is asked for; up to this width it is worth being TensorFlow's.
_HEAP_WIDTH_MAX: Final = 4096


def _descending(rows: Array) -> Array:
    """Positions of each row from the greatest down, of equal ones the first first; NaN before all."""
    if rows.shape[-1] >= MANY and rows.dtype == np.float32:
        if rows.ndim == 1:
            return falling_places(rows, nan_first=True)
        return np.stack([falling_places(row, nan_first=True) for row in rows])
    last = rows.shape[-1] - 1
    ascending = np.argsort(rows[..., ::-1], axis=-1, kind="stable")
    places: Array = last - ascending[..., ::-1]
    return places


def _top_row(row: Array, k: int) -> Array:
    """Positions of the k greatest of one long row without NaN, in order."""
    threshold = np.partition(row, row.size - k)[row.size - k]
    above = np.flatnonzero(row > threshold)
    level = np.flatnonzero(row == threshold)[: k - above.size]
    chosen = np.sort(np.concatenate([above, level]))
    return chosen[_descending(row[chosen])]


def _top_rows(rows: Array, k: int) -> Array:
    """Positions of the k greatest of each row, in order; rows without NaN."""
    width = rows.shape[1]
    threshold = np.partition(rows, width - k, axis=1)[:, width - k]
    above = rows >= threshold[:, None]
    if np.count_nonzero(above) != rows.shape[0] * k:
        # Somewhere more elements than wanted reach the threshold: row by row.
        return np.stack([_top_row(row, k) for row in rows])
    chosen = np.nonzero(above)[1].reshape(-1, k)
    order = _descending(np.take_along_axis(rows, chosen, axis=1))
    return np.take_along_axis(chosen, order, axis=1)


def _unsorted_row(row: Array, k: int) -> list[int]:
    """Positions of the k greatest in the order in which TensorFlow's heap of the best is left."""
    heap: list[tuple[Any, int]] = []
    for position, value in enumerate(row.tolist()):
        # The worst is on top: the least value, of equal ones the last.
        entry = (value, -position)
        if len(heap) < k:
            heap.append(entry)
        elif len(heap) == k and position == k:
            heap.append(entry)
            heapq.heapify(heap)
            heapq.heappop(heap)
        elif entry > heap[0]:
            heapq.heapreplace(heap, entry)
    return [-place for _, place in heap]


def _top(x: Array, k: int, in_order: bool) -> Any:
    if k < 0:
        raise InvalidArgumentError(f"Need k >= 0, got {k}")
    if x.ndim < 1:
        raise InvalidArgumentError(f"input must be >= 1-D, got shape {shape_text(x)}")
    width = x.shape[-1]
    if width < k:
        raise InvalidArgumentError(f"input must have at least k columns. Had {width}, needed {k}")
    rows = x.reshape(-1, width) if x.size else x.reshape(int(np.prod(x.shape[:-1])), width)
    if k == 0 or x.size == 0:
        place = np.zeros((rows.shape[0], k), np.int64)
    elif k == 1 and (x.dtype.kind in "iu" or not np.isnan(rows).any()):
        place = rows.argmax(axis=1)[:, None]
    elif not in_order and k < width <= _HEAP_WIDTH_MAX:
        place = np.array([_unsorted_row(row, k) for row in rows])
    elif width >= _PARTITION_RATIO * k and width > 64 and not (rows != rows).any():
        place = _top_rows(rows, k)
    else:
        place = _descending(rows)[:, :k]
    if len(place) == 1:
        # A tenth of what `take_along_axis` takes, and it is what most graphs sort.
        values = rows[0].take(place[0])
    else:
        values = np.take_along_axis(rows, place, axis=1) if x.size else rows[:, :k]
    shape = (*x.shape[:-1], k)
    return values.reshape(shape), place.astype(np.int32).reshape(shape)


@kernel("TopK", fresh=True)
def top_k(x: Array, *, k: int, node: Node) -> Any:
    """The k greatest of each row, descending, and where they are; of equal ones the first.

    With `sorted=False` the order is TensorFlow's for rows of moderate length, else descending too.
    """
    return _top(x, k, node.attrs["sorted"])


@kernel("TopKV2", fresh=True)
def top_k_v2(x: Array, k: Any, *, node: Node) -> Any:
    """`TopK` with k as a tensor."""
    if getattr(k, "ndim", 0):
        raise InvalidArgumentError(f"k must be scalar, got shape {shape_text(k)}")
    return _top(x, int(k), node.attrs["sorted"])


@kernel("NthElement", fresh=True)
def nth_element(x: Array, n: Any, *, reverse: bool) -> Any:
    """The element of rank n (from the greatest with `reverse`) of each row."""
    if getattr(n, "ndim", 0):
        raise InvalidArgumentError(f"N must be scalar, got shape {shape_text(n)}")
    rank = int(n)
    if rank < 0:
        raise InvalidArgumentError(f"Need n >= 0, got {rank}")
    if x.ndim < 1:
        raise InvalidArgumentError(f"Input must be >= 1-D, got shape {shape_text(x)}")
    width = x.shape[-1]
    if width <= rank:
        raise InvalidArgumentError(f"Input must have at least n+1 columns: {width} and n = {rank}")
    if reverse:
        rank = width - 1 - rank
    return np.partition(x, rank, axis=-1)[..., rank]


def _in_top(predictions: Array, targets: Array, k: int) -> Any:
    if predictions.ndim != 2:
        raise InvalidArgumentError(f"predictions must be 2-dimensional, not {shape_text(predictions)}")
    if targets.ndim != 1:
        raise InvalidArgumentError(f"targets must be 1-dimensional, not {shape_text(targets)}")
    rows, classes = predictions.shape
    if targets.shape[0] != rows:
        raise InvalidArgumentError(
            f"First dimension of predictions {rows} must match length of targets {targets.shape[0]}"
        )
    if rows == 0:
        return np.zeros(0, bool)
    known = (targets >= 0) & (targets < classes)
    if classes == 0:
        return np.zeros(rows, bool)
    own = predictions[np.arange(rows), np.where(known, targets, 0)]
    # One number that is not finite makes a row undecidable.
    decidable = known & np.isfinite(predictions).all(axis=1)
    return decidable & ((predictions > own[:, None]).sum(axis=1) < k)


@kernel("InTopK", fresh=True)
def in_top_k(predictions: Array, targets: Array, *, k: int) -> Any:
    """Whether less than k classes are predicted above the target; (B, C), (B,) to bool (B,)."""
    return _in_top(predictions, targets, k)


@kernel("InTopKV2", fresh=True)
def in_top_k_v2(predictions: Array, targets: Array, k: Any) -> Any:
    """`InTopK` with k as a tensor."""
    if getattr(k, "ndim", 0):
        raise InvalidArgumentError(f"k must be 0-D, got shape {shape_text(k)}")
    return _in_top(predictions, targets, int(k))
