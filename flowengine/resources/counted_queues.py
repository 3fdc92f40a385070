"""Queues whose elements are booked with an account: what would pass its bound is refused whole.

An element counts from the moment it is stored until it is taken. One that waits for room is checked when it
comes; it is its step's until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from flowengine.core.accounting import element_bytes, rows_bytes
from flowengine.resources.element_pool import ElementPool
from flowengine.resources.elements import Element
from flowengine.resources.queue import Queue
from flowengine.resources.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue


class _CountedQueue(Queue):
    """Goes before a queue's class. Raises ResourceExhaustedError for what the account refuses."""

    __slots__ = ()

    def enqueue_nowait(self, element: Element) -> Any:
        if self.account is not None:
            self.account.check(element_bytes(element))
        return Queue.enqueue_nowait(self, element)

    def _ask_for_rows(self, batch: Element, count: int) -> None:
        if self.account is not None:
            self.account.check(rows_bytes(batch, count))
        super()._ask_for_rows(batch, count)

    def dequeue_nowait(self) -> Any:
        return Queue.dequeue_nowait(self)

    def _book(self, size: int) -> None:
        self.bytes_held += size
        if self.account is not None:
            self.account.book(self, self.bytes_held, self.name)

    def _put(self, element: Element) -> None:
        super()._put(element)
        self._book(element_bytes(element))

    def _take(self) -> Element:
        element = super()._take()
        self._book(-element_bytes(element))
        return element

    def _give_back(self, elements: Sequence[Element]) -> None:
        super()._give_back(elements)
        self._book(sum(map(element_bytes, elements)))

    def _clear(self) -> None:
        super()._clear()
        self._book(-self.bytes_held)


class CountedFIFOQueue(_CountedQueue, FIFOQueue):
    __slots__ = ()


class CountedPaddingFIFOQueue(_CountedQueue, PaddingFIFOQueue):
    __slots__ = ()


class CountedPriorityQueue(_CountedQueue, PriorityQueue):
    __slots__ = ()


class CountedRandomShuffleQueue(_CountedQueue, RandomShuffleQueue):
    """A shuffling queue that books whole batches: elements of fixed shapes need no objects of their own."""

    __slots__ = ()

    def _put_rows(self, batch: Element, start: int, stop: int) -> None:
        super()._put_rows(batch, start, stop)
        if isinstance(self._store, ElementPool):
            self._book(self._bytes_of_rows(tuple(value[start:stop] for value in batch)))

    def _take_batch(self, count: int) -> Element:
        taken = super()._take_batch(count)
        if isinstance(self._store, ElementPool):
            self._book(-self._bytes_of_rows(taken))
        return taken

    def _bytes_of_rows(self, batch: Element) -> int:
        return sum(element_bytes(row) for row in zip(*batch, strict=True))


_COUNTED: Final[dict[type[Queue], type[Queue]]] = {
    FIFOQueue: CountedFIFOQueue,
    PaddingFIFOQueue: CountedPaddingFIFOQueue,
    PriorityQueue: CountedPriorityQueue,
    RandomShuffleQueue: CountedRandomShuffleQueue,
}


def maker(kind: type[Queue], *, counted: bool) -> Callable[..., Queue]:
    """Return the class for a queue of a kind: one that books its elements, or one that does not."""
    return _COUNTED[kind] if counted else kind


__all__ = ["maker"]
