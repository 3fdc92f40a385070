"""Queues: bounded, waiting in order of arrival on both sides.

`Queue` is a synchronous machine: two lines of attempts over a store of elements, advanced whenever
either changed. The coroutines at its end only wait. An element is a tuple with one value a component.
`queue_kinds` has the queues themselves, which differ in their store.

    >>> from flowengine.core import dtypes
    >>> from flowengine.resources.queue_kinds import FIFOQueue
    >>> queue = FIFOQueue("q", (dtypes.int32,), None, capacity=2)
    >>> queue.enqueue_nowait((np.int32(7),))
    >>> queue.dequeue_nowait()
    (np.int32(7),)
    >>> queue.dequeue_nowait()
    WOULD_WAIT

What waits and is cancelled leaves the queue as if it had never come, with two exceptions: elements that
a dequeue of many had taken go back to the front, in order, even above the capacity; and an enqueue of
many leaves the prefix that had found room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import trio

from flowengine.core.accounting import Account, ask_for, is_asked, rows_bytes
from flowengine.core.arrays import WOULD_WAIT, Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from flowengine.core.shapes import TensorShape
from flowengine.resources.elements import Element, own, rows_of, stack
from flowengine.resources.queue_attempts import (
    Close,
    Dequeue,
    DequeueMany,
    Enqueue,
    EnqueueRows,
    dequeue_of_removed,
    enqueue_cancelled,
)
from flowengine.resources.waiting import Attempt, AttemptLine, wait_finished

#: What a negative capacity means.
UNBOUNDED: Final = 2**63 - 1


class Queue:
    """The base of all queues; a subclass says how elements are stored, taken and given back.

    name              in messages, and in its resource manager
    component_types   the base type of each component
    shapes            the shape of each component, or None where they are not fixed
    capacity          most elements held; negative: no bound
    """

    kind: ClassVar[str] = "Queue"
    #: Whether a dequeue of many takes elements as they come, or all at once when there are enough.
    takes_as_they_come: ClassVar[bool] = True
    __slots__ = (
        "__weakref__",
        "_closed",
        "_dequeues",
        "_enqueues",
        "_exact",
        "account",
        "bytes_held",
        "capacity",
        "component_types",
        "container",
        "name",
        "shapes",
        "verified",
    )

    def __init__(
        self,
        name: str,
        component_types: Sequence[DType],
        shapes: Sequence[TensorShape] | None,
        *,
        capacity: int = -1,
        container: str = "",
    ) -> None:
        self.name = name
        self.container = container
        self.component_types = tuple(component_types)
        self.shapes = tuple(shapes) if shapes else None
        self.capacity = UNBOUNDED if capacity < 0 else capacity
        if self.shapes is not None and len(self.shapes) != len(self.component_types):
            raise InvalidArgumentError(
                f"{self.kind} '{name}' has {len(self.component_types)} component types "
                f"but {len(self.shapes)} shapes"
            )
        self._check_shapes()
        #: The shapes as tuples, where they are complete: what most elements are checked against.
        self._exact = None if self.shapes is None else tuple(shape.dims for shape in self.shapes)
        #: Whatever declared the queue last and was found to agree with it: it need not be checked again.
        self.verified: object = None
        #: Set by the resource manager: where `counted_queues` book what the elements take.
        self.account: Account | None = None
        self.bytes_held = 0
        self._closed = False
        self._enqueues = AttemptLine()
        self._dequeues = AttemptLine()

    # The store, for subclasses.

    def __len__(self) -> int:
        """How many elements are held."""
        raise AssertionError(f"{type(self).__name__} has no store")

    def _put(self, element: Element) -> None:
        """Store one element; there is room."""
        raise AssertionError(f"{type(self).__name__} has no store")

    def _take(self) -> Element:
        """Remove and return the next element; there is one."""
        raise AssertionError(f"{type(self).__name__} has no store")

    def _put_rows(self, batch: Element, start: int, stop: int) -> None:
        """Store some rows of a batch, which stays the caller's; there is room."""
        for element in rows_of(tuple(value[start:stop] for value in batch)):
            self._put(element)

    def _ask_for_rows(self, batch: Element, count: int) -> None:
        """Ask for what so many rows take as elements, before any is stored: rows of nothing are some, too."""
        if is_asked():
            ask_for(rows_bytes(batch, count))

    def _take_batch(self, count: int) -> Element:
        """Remove so many elements, stacked component by component; there are as many."""
        return self.batch([self._take() for _ in range(count)])

    def _take_some(self, count: int) -> list[Element]:
        """Remove so many elements for a batch that waits for more: a list that `_joined` understands."""
        return [self._take() for _ in range(count)]

    def _joined(self, taken: list[Element]) -> Element:
        """All that `_take_some` gave, stacked component by component."""
        return self.batch(taken)

    def _give_back_some(self, taken: list[Element]) -> None:
        """Restore what `_take_some` gave."""
        self._give_back(taken)

    def _give_back(self, elements: Sequence[Element]) -> None:
        """Restore what `_take` returned, oldest first, so that it is taken again in this order."""
        raise AssertionError(f"{type(self).__name__} has no store")

    def _available(self) -> int:
        """How many elements may be taken now."""
        return len(self)

    def _clear(self) -> None:
        """Drop all elements."""
        raise AssertionError(f"{type(self).__name__} has no store")

    # What is asked and done without waiting.

    @property
    def size(self) -> int:
        return len(self)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def has_ended(self) -> bool:
        """Whether it was removed."""
        return self._dequeues.has_ended

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits on either side."""
        return not self._is_awaited()

    def _is_awaited(self) -> bool:
        return bool(self._enqueues.attempts or self._dequeues.attempts)

    def enqueue_nowait(self, element: Element) -> Any:
        """Add an element: None, or WOULD_WAIT with nothing changed. For errors see `enqueue`."""
        if self._exact is not None:
            self._check(element)
        if self._closed:
            raise self._closed_error()
        if self._enqueues.attempts or len(self) >= self.capacity:
            return WOULD_WAIT
        self._put(own(element))
        if self._dequeues.attempts:
            self._advance()
        return None

    def enqueue_many_nowait(self, batch: Element) -> Any:
        """Add the rows of a batch: None, or WOULD_WAIT with nothing changed."""
        count = self._check_batch(batch)
        if count == 0:
            return None
        if self._closed:
            raise self._closed_error()
        self._ask_for_rows(batch, min(count, self.capacity))
        if self._enqueues.attempts or len(self) + count > self.capacity:
            return WOULD_WAIT
        self._put_rows(batch, 0, count)
        if self._dequeues.attempts:
            self._advance()
        return None

    def dequeue_nowait(self) -> Any:
        """The next element, or WOULD_WAIT with nothing changed. For errors see `dequeue`."""
        if self._dequeues.attempts:
            return WOULD_WAIT
        if self._available() > 0:
            element = self._take()
            if self._enqueues.attempts:
                self._advance()
            return element
        if self._closed:
            raise self._insufficient(1)
        return WOULD_WAIT

    def dequeue_many_nowait(self, count: int, *, up_to: bool = False) -> Any:
        """A batch of `count` elements, or WOULD_WAIT with nothing changed. See `dequeue_many`."""
        self._check_count(count)
        if count == 0:
            return self.batch([])
        if self._dequeues.attempts:
            return WOULD_WAIT
        if self._available() < count:
            if not self._closed:
                return WOULD_WAIT
            if not up_to or not len(self):
                raise self._insufficient(count)
            count = len(self)
        taken = self._take_batch(count)
        if self._enqueues.attempts:
            self._advance()
        return taken

    def close_nowait(self, *, cancel_pending_enqueues: bool = False) -> Any:
        """Close: None, or WOULD_WAIT with nothing changed while enqueues are pending.

        With `cancel_pending_enqueues` those fail with CancelledError and the queue is closed at once.
        """
        if cancel_pending_enqueues:
            self._closed = True
            self._enqueues.fail_all(lambda attempt: enqueue_cancelled(self, attempt))
            self._advance()
            return None
        if self._enqueues.attempts:
            return WOULD_WAIT
        if self._closed:
            raise CancelledError(f"Queue '{self.name}' is already closed.")
        self._closed = True
        self._advance()
        return None

    def destroy(self) -> None:
        """End the queue: who waits, or comes later, fails with CancelledError; the elements are dropped."""
        self._closed = True
        self._enqueues.end(lambda attempt: enqueue_cancelled(self, attempt))
        self._dequeues.end(lambda _: dequeue_of_removed(self))
        self._clear()

    # Attempts: what may have to wait, still without an event loop.

    def start_enqueue(self, elements: list[Element]) -> Attempt:
        """Stand in line with elements that the queue may keep."""
        return self._join(self._enqueues, Enqueue(self, elements))

    def start_enqueue_rows(self, batch: Element, count: int) -> Attempt:
        """Stand in line with the rows of a batch, which is not changed as long as the attempt lasts."""
        return self._join(self._enqueues, EnqueueRows(self, batch, count))

    def start_dequeue(self) -> Attempt:
        return self._join(self._dequeues, Dequeue(self))

    def start_dequeue_many(self, count: int, *, up_to: bool = False) -> Attempt:
        return self._join(self._dequeues, DequeueMany(self, count, up_to))

    def start_close(self) -> Attempt:
        return self._join(self._enqueues, Close(self))

    def withdraw(self, attempt: Attempt) -> None:
        """Cancel an unfinished attempt; see the module for what it leaves behind."""
        line = self._enqueues if isinstance(attempt, Enqueue | Close) else self._dequeues
        line.leave(attempt)
        self._advance()

    def _join(self, line: AttemptLine, attempt: Attempt) -> Attempt:
        line.join(attempt)
        self._advance()
        return attempt

    def _advance(self) -> None:
        """Let both lines do all they can; each may make room or elements for the other."""
        while self._enqueues.advance() | self._dequeues.advance():
            pass

    # The asynchronous shell.

    async def enqueue(self, element: Element) -> None:
        """Add an element, waiting for room behind those who came before.

        Raises CancelledError where the queue is or gets closed, InvalidArgumentError for a component
        of another shape. Cancelled, it has added nothing.
        """
        if self.enqueue_nowait(element) is WOULD_WAIT:
            await wait_finished(self.start_enqueue([own(element)]), self.withdraw)

    async def enqueue_many(self, batch: Element) -> None:
        """Add the rows of a batch one by one, waiting for room; nobody else's come in between.

        Raises as `enqueue` does; the error, or a note of the cancellation, says how many rows stay.
        """
        if self.enqueue_many_nowait(batch) is not WOULD_WAIT:
            return
        attempt = self.start_enqueue_rows(batch, len(batch[0]))
        try:
            await wait_finished(attempt, self.withdraw)
        except trio.Cancelled as cancelled:
            assert isinstance(attempt, Enqueue)
            cancelled.add_note(f"{self.kind} '{self.name}': {attempt.progress()} before cancellation")
            raise

    async def dequeue(self) -> Element:
        """The next element, waiting for one behind those who came before.

        Raises OutOfRangeError where the queue is closed and empty. Cancelled, it has taken nothing.
        """
        element = self.dequeue_nowait()
        if element is WOULD_WAIT:
            element = await wait_finished(self.start_dequeue(), self.withdraw)
        taken: Element = element
        return taken

    async def dequeue_many(self, count: int, *, up_to: bool = False) -> Element:
        """The next `count` elements, each component stacked along a new first axis.

        With `up_to`, fewer once the queue is closed, but at least one. Raises OutOfRangeError where it
        is closed with too few left, which stay in it; InvalidArgumentError where shapes are not fixed.
        """
        batch = self.dequeue_many_nowait(count, up_to=up_to)
        if batch is WOULD_WAIT:
            batch = await wait_finished(self.start_dequeue_many(count, up_to=up_to), self.withdraw)
        taken: Element = batch
        return taken

    async def close(self, *, cancel_pending_enqueues: bool = False) -> None:
        """Refuse further elements; those there can still be taken.

        Enqueues that wait are finished first, unless they are to be cancelled. Raises CancelledError
        where the queue is closed already. Cancelled, it leaves the queue open.
        """
        if self.close_nowait(cancel_pending_enqueues=cancel_pending_enqueues) is WOULD_WAIT:
            await wait_finished(self.start_close(), self.withdraw)

    # Checks and batches.

    def _check_shapes(self) -> None:
        """InvalidArgumentError for shapes that this kind of queue cannot have."""
        for shape in self.shapes or ():
            if not shape.is_fully_defined:
                raise InvalidArgumentError(
                    f"{self.kind} '{self.name}' needs complete shapes, not {shape}; "
                    "a PaddingFIFOQueue takes partial ones"
                )

    def _check(self, element: Element) -> None:
        """InvalidArgumentError where a component has not its shape."""
        assert self._exact is not None
        assert self.shapes is not None
        for value, dims in zip(element, self._exact, strict=True):
            if getattr(value, "shape", ()) != dims:
                break
        else:
            return
        for index, (value, expected) in enumerate(zip(element, self.shapes, strict=True)):
            shape = getattr(value, "shape", ())
            if not expected.is_compatible_with(TensorShape(shape)):
                raise InvalidArgumentError(
                    f"Shape mismatch in tuple component {index}. Expected {expected}, got {list(shape)}"
                )

    def _check_batch(self, batch: Element) -> int:
        """The number of rows; InvalidArgumentError where components differ in it or in their shapes."""
        count: int | None = None
        for index, value in enumerate(batch):
            shape = getattr(value, "shape", ())
            if not shape:
                raise InvalidArgumentError(
                    f"Component {index} of a batch to enqueue must have rank 1 or more, but is a scalar"
                )
            if self.shapes is not None and not self.shapes[index].is_compatible_with(TensorShape(shape[1:])):
                raise InvalidArgumentError(
                    f"Shape mismatch in tuple component {index}. Expected {shape[0]} rows of "
                    f"{self.shapes[index]}, got {list(shape)}"
                )
            if count is None:
                count = shape[0]
            elif shape[0] != count:
                raise InvalidArgumentError(
                    "All input tensors must have the same size in the 0th dimension. "
                    f"Component {index} has {shape[0]}, and should have {count}"
                )
        return count or 0

    def _check_count(self, count: int) -> None:
        if count < 0:
            raise InvalidArgumentError(f"DequeueManyOp requested {count} < 0 elements")
        if self.shapes is None:
            raise InvalidArgumentError(
                f"{self.kind}'s DequeueMany and DequeueUpTo require the components to have specified "
                f"shapes (queue '{self.name}')"
            )

    def batch(self, elements: list[Element]) -> Element:
        """Elements stacked component by component."""
        assert self.shapes is not None
        columns = zip(*elements, strict=True) if elements else ((),) * len(self.shapes)
        return tuple(
            stack(list(column), dtype, tuple(d or 0 for d in shape.as_list()))
            for column, dtype, shape in zip(columns, self.component_types, self.shapes, strict=True)
        )

    def _closed_error(self) -> CancelledError:
        return CancelledError(f"{self.kind} '{self.name}' is closed.")

    def _insufficient(self, requested: int) -> OpError:
        if self.has_ended:
            return dequeue_of_removed(self)  # not the end of what there is to take
        return OutOfRangeError(
            f"{self.kind} '{self.name}' is closed and has insufficient elements "
            f"(requested {requested}, current size {len(self)})"
        )

    def read(self) -> Value:
        """Return the value of a reference handle to a queue: container and name (string vector)."""
        handle = np.empty(2, dtype=object)
        handle[:] = [self.container.encode(), self.name.encode()]
        return handle

    def __repr__(self) -> str:
        return f"<{self.kind} '{self.name}' {len(self)} of {self.capacity}{' closed' * self._closed}>"
