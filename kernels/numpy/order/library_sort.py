"""The sort and the heaps of the C++ library that TensorFlow is built with, step by step.

Where no order is right, as with NaN, or any of several is, as with equal elements, TensorFlow's result is
what these algorithms (GNU's introsort and binary heaps) happen to leave. Everything else is sorted by NumPy,
which is faster by orders of magnitude.

Each function takes `less(a, b)`: whether a comes before b.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Less = Callable[[Any, Any], bool]

#: Parts of no more elements are left to the insertion sort at the end.
_SMALL: Final = 16


def sort(items: list[Any], less: Less) -> bool:
    """Sort in place; return False where the library would read beyond the elements.

    That happens only where `less` is no order, and leaves the elements in disorder.
    """
    try:
        _sort_parts(items, 0, len(items), 2 * max(len(items).bit_length() - 1, 0), less)
        _insert_all(items, less)
    except IndexError:
        return False
    return True


def _sort_parts(items: list[Any], first: int, last: int, depth: int, less: Less) -> None:
    """Partition until all parts are small; from a depth on sort a part by a heap."""
    while last - first > _SMALL:
        if depth == 0:
            part = items[first:last]
            make_heap(part, less)
            sort_heap(part, less)
            items[first:last] = part
            return
        depth -= 1
        cut = _partition(items, first, last, less)
        _sort_parts(items, cut, last, depth, less)
        last = cut


def _partition(items: list[Any], first: int, last: int, less: Less) -> int:
    """Put what comes before the median of three before the rest; return where the rest begins."""
    low, middle, high = first + 1, first + (last - first) // 2, last - 1
    median = _median(items, low, middle, high, less)
    items[first], items[median] = items[median], items[first]
    pivot, left, right = items[first], first + 1, last
    while True:
        while less(items[left], pivot):
            left += 1
        right -= 1
        while less(pivot, items[_inside(right)]):
            right -= 1
        if left >= right:
            return left
        items[left], items[right] = items[right], items[left]
        left += 1


def _median(items: list[Any], low: int, middle: int, high: int, less: Less) -> int:
    a, b, c = items[low], items[middle], items[high]
    if less(a, b):
        return middle if less(b, c) else high if less(a, c) else low
    return low if less(a, c) else high if less(b, c) else middle


def _inside(place: int) -> int:
    if place < 0:
        raise IndexError(place)
    return place


def _insert_all(items: list[Any], less: Less) -> None:
    for place in range(1, len(items)):
        value = items[place]
        if place < _SMALL and less(value, items[0]):
            items[1 : place + 1] = items[:place]
            items[0] = value
            continue
        before = place - 1
        while less(value, items[_inside(before)]):
            items[before + 1] = items[before]
            before -= 1
        items[before + 1] = value


def make_heap(items: list[Any], less: Less) -> None:
    """Make a heap in place, with the last in order at its top."""
    for place in range((len(items) - 2) // 2, -1, -1):
        _sift(items, place, len(items), items[place], less)


def push_heap(items: list[Any], less: Less) -> None:
    """Take the last element into the heap of the others."""
    _rise(items, len(items) - 1, 0, items[-1], less)


def pop_heap(items: list[Any], less: Less, size: int | None = None) -> None:
    """Move the top of the heap, of the first `size` elements, behind the others."""
    last = (len(items) if size is None else size) - 1
    if last < 1:
        return
    value, items[last] = items[last], items[0]
    _sift(items, 0, last, value, less)


def sort_heap(items: list[Any], less: Less) -> None:
    """Turn a heap into a sorted list."""
    for size in range(len(items), 1, -1):
        pop_heap(items, less, size)


def _sift(items: list[Any], hole: int, size: int, value: Any, less: Less) -> None:
    """Move the hole down to a leaf along the later children, then put the value where it belongs above."""
    top = hole
    while (child := 2 * hole + 2) < size:
        if less(items[child], items[child - 1]):
            child -= 1
        items[hole] = items[child]
        hole = child
    if child == size:
        items[hole] = items[child - 1]
        hole = child - 1
    _rise(items, hole, top, value, less)


def _rise(items: list[Any], hole: int, top: int, value: Any, less: Less) -> None:
    while hole > top and less(items[parent := (hole - 1) // 2], value):
        items[hole] = items[parent]
        hole = parent
    items[hole] = value


__all__ = ["make_heap", "pop_heap", "push_heap", "sort", "sort_heap"]
