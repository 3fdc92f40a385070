"""Attempts that may have to wait at a queue: enqueues, dequeues, and the close that lets enqueues go first.

These are the inside of `Queue`: each advances as far as the queue's store and its two lines allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowengine.core.errors import CancelledError
from flowengine.resources.elements import Element
from flowengine.resources.waiting import Attempt

if TYPE_CHECKING:
    from flowengine.resources.queue import Queue


class Enqueue(Attempt):
    """An element on its way in; also several, each in its turn."""

    __slots__ = ("_count", "_done", "_elements", "_queue")

    def __init__(self, queue: Queue, elements: list[Element]) -> None:
        super().__init__()
        self._queue = queue
        self._elements = elements
        self._count = len(elements)
        self._done = 0

    def advance(self) -> bool:
        queue = self._queue
        if queue._closed:
            error = queue._closed_error()
            if self._done:
                error = CancelledError(f"{error.message} {self.progress()}")
            return self.fail(error)
        room = queue.capacity - len(queue)
        if room <= 0:
            return False
        stop = min(self._done + room, self._count)
        self._put(self._done, stop)
        self._done = stop
        return self.finish() if stop == self._count else True

    def _put(self, start: int, stop: int) -> None:
        for index in range(start, stop):
            self._queue._put(self._elements[index])

    def progress(self) -> str:
        return f"{self._done} of {self._count} elements were enqueued"


class EnqueueRows(Enqueue):
    """The rows of a batch on their way in. The batch must stay as it is until then."""

    __slots__ = ("_batch",)

    def __init__(self, queue: Queue, batch: Element, count: int) -> None:
        super().__init__(queue, [])
        self._batch = batch
        self._count = count

    def _put(self, start: int, stop: int) -> None:
        self._queue._put_rows(self._batch, start, stop)


class Close(Attempt):
    """A close that waits for the enqueues before it."""

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    def advance(self) -> bool:
        if self._queue._closed:
            return self.fail(CancelledError(f"Queue '{self._queue.name}' is already closed."))
        self._queue._closed = True
        return self.finish()


class Dequeue(Attempt):
    """One element wanted."""

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    def advance(self) -> bool:
        queue = self._queue
        if queue._available() > 0:
            return self.finish(queue._take())
        return self.fail(queue._insufficient(1)) if queue._closed else False


class DequeueMany(Attempt):
    """Several elements wanted: usually taken as they come, so that more than the capacity can be."""

    __slots__ = ("_count", "_held", "_queue", "_taken", "_up_to")

    def __init__(self, queue: Queue, count: int, up_to: bool) -> None:
        super().__init__()
        self._queue = queue
        self._count = count
        self._up_to = up_to
        #: What the queue's `_take_some` gave, and how many elements that is.
        self._taken: list[Element] = []
        self._held = 0

    def advance(self) -> bool:
        queue = self._queue
        wanted = self._count - self._held
        if queue._closed and len(queue) < wanted:
            self.undo()
            if not self._up_to or not len(queue):
                return self.fail(queue._insufficient(self._count))
            self._count = wanted = len(queue)
        ready = min(wanted, queue._available())
        if ready <= 0 or (ready < wanted and not queue.takes_as_they_come):
            return False
        if ready == self._count:
            return self.finish(queue._take_batch(ready))
        self._taken += queue._take_some(ready)
        self._held += ready
        return self.finish(queue._joined(self._taken)) if ready == wanted else True

    def undo(self) -> None:
        if self._held:
            self._queue._give_back_some(self._taken)
            self._taken = []
            self._held = 0


def enqueue_cancelled(queue: Queue, attempt: Attempt) -> CancelledError:
    """Return the error for a waiting enqueue or close, if the queue was closed at once or removed."""
    did = f" ({attempt.progress()})" if isinstance(attempt, Enqueue) else ""
    return CancelledError(
        f"Enqueue operation was cancelled: {queue.kind} '{queue.name}' was closed with its waiters{did}"
    )


def dequeue_of_removed(queue: Queue) -> CancelledError:
    """Return the error for a dequeue from a removed queue."""
    return CancelledError(f"{queue.kind} '{queue.name}' was removed before a dequeue had its elements")
