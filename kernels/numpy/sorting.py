"""The greatest elements of rows, found with few of them sorted."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.nn.sorting import check_top, descending, scalar_k
from flowengine.kernels.numpy.order import library_sort
from flowengine.kernels.numpy.order.falling import MANY, falling_places
from flowengine.kernels.registry import kernel

#: A row is cut before it is sorted where it is this much longer than what is asked for.
_PARTITION_RATIO: Final = 8
#: Any order is right where none is asked for; up to this width it is worth being TensorFlow's.
_HEAP_WIDTH_MAX: Final = 4096


def _descending(rows: Array) -> Any:
    """Positions of each row from the greatest down, of equal ones the first first; NaN before all."""
    if rows.shape[-1] >= MANY and rows.dtype == np.float32:
        if rows.ndim == 1:
            return falling_places(rows, nan_first=True)
        return np.stack([falling_places(row, nan_first=True) for row in rows])
    places: Array = descending(np, rows)
    return places


def _top_row(row: Array, k: int) -> Any:
    """Positions of the k greatest of one long row without NaN, in order."""
    threshold = np.partition(row, row.size - k)[row.size - k]
    above = np.flatnonzero(row > threshold)
    level = np.flatnonzero(row == threshold)[: k - above.size]
    chosen = np.sort(np.concatenate([above, level]))
    return chosen[_descending(row[chosen])]


def _top_rows(rows: Array, k: int) -> Any:
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


def _row_with_nan(row: Array, k: int, in_order: bool) -> list[int]:
    """Positions of the k greatest as TensorFlow orders them: where NaN stands depends on the whole row."""
    values: list[float] = row.tolist()
    heap = list(range(k if k == len(values) else k + 1))

    def greater(a: int, b: int) -> bool:
        return values[b] < values[a]

    def first_greater(a: int, b: int) -> bool:
        return values[b] < values[a] or (not values[b] > values[a] and a < b)

    if k == len(values):
        if not library_sort.sort(heap, greater):
            return _descending(row).tolist()  # type: ignore[no-any-return]
        return [place for run in _equal_runs(heap, values) for place in sorted(run)]
    library_sort.make_heap(heap, first_greater)
    library_sort.pop_heap(heap, first_greater)
    for position in range(k + 1, len(values)):
        if first_greater(position, heap[0]):
            heap[-1] = position
            library_sort.pop_heap(heap, first_greater)
    heap.pop()
    if in_order:
        library_sort.sort_heap(heap, first_greater)
    return heap


def _equal_runs(places: list[int], values: list[float]) -> Iterator[list[int]]:
    """Yield neighbours whose values are equal; a NaN is equal to none."""
    run: list[int] = []
    for place in places:
        if run and values[run[-1]] != values[place]:
            yield run
            run = []
        run.append(place)
    yield run


def _top(x: Array, k: int, in_order: bool) -> Any:
    check_top(x, k)
    width = x.shape[-1]
    rows = x.reshape(-1, width) if x.size else x.reshape(int(np.prod(x.shape[:-1])), width)
    if k == 0 or x.size == 0:
        place = np.zeros((rows.shape[0], k), np.int64)
    elif k == 1 and (x.dtype.kind in "iu" or not np.isnan(rows).any()):
        place = rows.argmax(axis=1)[:, None]
    elif k > 1 and width <= _HEAP_WIDTH_MAX and x.dtype.kind == "f" and np.isnan(rows).any():
        place = np.array([_row_with_nan(row, k, in_order) for row in rows])
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


@kernel("TopK", device="CPU", fresh=True)
def top_k(x: Array, *, k: int, node: Node) -> Any:
    """The k greatest of each row, descending, and where they are; of equal ones the first.

    With `sorted=False` the order is TensorFlow's for rows of moderate length, else descending too.
    """
    return _top(x, k, node.attrs["sorted"])


@kernel("TopKV2", device="CPU", fresh=True, host=("k",))
def top_k_v2(x: Array, k: Any, *, node: Node) -> Any:
    """`TopK` with k as a tensor; the places are of the type that the node names."""
    values, places = _top(x, scalar_k(k), node.attrs["sorted"])
    return values, places.astype(node.attrs["index_type"].as_numpy_dtype, copy=False)
