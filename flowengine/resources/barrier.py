"""Barrier: brings together, by key, components that arrive one by one and in any order.

When all components of a key are there it becomes ready; ready keys are taken in the order in which their
first component arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.accounting import Account, bytes_of
from flowengine.core.arrays import WOULD_WAIT, Value, to_array
from flowengine.core.dtypes import DType, string
from flowengine.core.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.resources.elements import Element, rows_of, stack
from flowengine.resources.queue_kinds import PriorityQueue

#: The index of the first key; TensorFlow counts from here, so that all of an int64 can be used.
_FIRST_INDEX = -(2**63)


class _ReadyQueue(PriorityQueue):
    """(arrival, key, components); shapes that were not given are those of the elements."""

    kind = "Barrier"
    __slots__ = ()

    def _check_shapes(self) -> None:
        """Any shapes: what is enqueued was checked by the barrier."""

    def batch(self, elements: list[Element]) -> Element:
        if not elements:
            shapes = [shape.as_tuple() or () for shape in self.shapes or ()]
        else:
            shapes = [getattr(value, "shape", ()) for value in elements[0]]
            for element in elements:
                for index, value in enumerate(element):
                    if getattr(value, "shape", ()) != shapes[index]:
                        raise InvalidArgumentError(
                            f"Barrier '{self.name}' cannot stack component {index - 2} of shapes "
                            f"{list(shapes[index])} and {list(value.shape)}"
                        )
        columns = zip(*elements, strict=True) if elements else ((),) * len(shapes)
        return tuple(
            stack(list(column), dtype, shape)
            for column, dtype, shape in zip(columns, self.component_types, shapes, strict=True)
        )


class Barrier:
    """See the module.

    component_types, shapes   of the components of one key; shapes may be partial
    """

    __slots__ = (
        "__weakref__",
        "_bytes",
        "_cancelled",
        "_closed",
        "_incomplete",
        "_next",
        "_ready",
        "account",
        "component_types",
        "container",
        "name",
        "shapes",
    )

    def __init__(
        self,
        name: str,
        component_types: Sequence[DType],
        shapes: Sequence[TensorShape] | None,
        *,
        container: str = "",
    ) -> None:
        self.name = name
        self.container = container
        self.component_types = tuple(component_types)
        if shapes and len(shapes) != len(self.component_types):
            raise InvalidArgumentError(
                f"Barrier '{name}' has {len(self.component_types)} component types but {len(shapes)} shapes"
            )
        self.shapes = tuple(shapes) if shapes else (TensorShape(None),) * len(self.component_types)
        self._ready = _ReadyQueue(name, (string, *self.component_types), (SCALAR, *self.shapes))
        #: {key: (arrival, {component: value})}
        self._incomplete: dict[bytes, tuple[int, dict[int, Value]]] = {}
        #: Set by the resource manager: where components are booked, until they are taken.
        self.account: Account | None = None
        self._bytes = 0
        self._next = _FIRST_INDEX
        self._closed = False
        self._cancelled = False

    @property
    def ready_size(self) -> int:
        return self._ready.size

    @property
    def incomplete_size(self) -> int:
        return len(self._incomplete)

    def insert_many(self, component: int, keys: Any, values: Any) -> None:
        """Give one component (n, ...) of the keys (string, (n,)).

        Raises CancelledError where the barrier is closed and a key is new, or nothing is awaited any
        more; InvalidArgumentError where a key has the component already, or shapes do not fit.
        """
        keys, values = to_array(keys), to_array(values)
        if not 0 <= component < len(self.component_types):
            raise InvalidArgumentError(
                f"The component ID is out of range {component} > num_components "
                f"(= {len(self.component_types)})"
            )
        if keys.ndim != 1 or values.ndim == 0 or len(keys) != len(values):
            raise InvalidArgumentError(
                f"keys must be a vector and values have as many rows, but their shapes are "
                f"{list(keys.shape)} and {list(values.shape)}"
            )
        if not self.shapes[component].is_compatible_with(TensorShape(values.shape[1:])):
            raise InvalidArgumentError(
                f"Shape mismatch in tuple component {component}. Expected {self.shapes[component]}, "
                f"got {list(values.shape[1:])}"
            )
        fresh = sum(1 for key in keys.tolist() if key not in self._incomplete)
        if self._closed and (self._cancelled or (fresh and not self._incomplete)):
            raise self._closed_error(fresh)
        if self.account is not None:
            self.account.check(bytes_of(keys) + bytes_of(values))
        try:
            for key, (value,) in zip(keys.tolist(), rows_of((values,)), strict=True):
                self._insert(component, key, value, fresh)
        finally:
            if self._closed and not self._incomplete:
                self._close_ready()

    def _insert(self, component: int, key: bytes, value: Value, fresh: int) -> None:
        entry = self._incomplete.get(key)
        if entry is None:
            if self._closed:
                raise self._closed_error(fresh, key)
            entry = self._incomplete[key] = (self._next, {})
            self._next += 1
        index, values = entry
        if component in values:
            raise InvalidArgumentError(
                f"Key {key!r} already has a value for component {component} in barrier {self.name}"
            )
        values[component] = value
        self._book(bytes_of(value))
        if len(values) == len(self.component_types):
            del self._incomplete[key]
            self._ready.enqueue_nowait((np.int64(index), key, *(values[i] for i in range(len(values)))))

    def _book(self, size: int) -> None:
        if self.account is not None:
            self._bytes += size
            self.account.book(self, self._bytes, self.name)

    def _taken(self, batch: Any) -> Any:
        """Book the removal of a batch of ready keys and return it: (indices, keys, components...)."""
        if self.account is not None and batch is not WOULD_WAIT:
            self._book(-sum(bytes_of(row) for column in batch[2:] for row in column))
        return batch

    def _closed_error(self, fresh: int, key: bytes | None = None) -> CancelledError:
        why = "" if key is None else f", but attempted to insert a brand new key: {key!r}"
        return CancelledError(
            f"Barrier {self.name} is closed{why}.  Pending enqueues cancelled: {self._cancelled}.  "
            f"Number of new insertions: {fresh}.  Number of incomplete keys: {len(self._incomplete)}."
        )

    def take_many_nowait(self, count: int, *, up_to: bool = False) -> Any:
        """`take_many`, or WOULD_WAIT with nothing changed."""
        return self._taken(self._ready.dequeue_many_nowait(self._deliverable(count, up_to), up_to=up_to))

    async def take_many(self, count: int, *, up_to: bool = False) -> Element:
        """(indices int64 (n,), keys string (n,), components (n, ...)...) of `count` ready keys, waiting.

        With `up_to`, of fewer once the barrier is closed, but at least one. Raises OutOfRangeError where
        it is closed and so many cannot become ready. Cancelled, it has taken nothing.
        """
        batch = self.take_many_nowait(count, up_to=up_to)
        if batch is WOULD_WAIT:
            batch = self._taken(await self._ready.dequeue_many(self._deliverable(count, up_to), up_to=up_to))
        taken: Element = batch
        return taken

    def _deliverable(self, count: int, up_to: bool) -> int:
        """How many to ask for, given that a closed barrier has no more than it has."""
        if count <= 0:
            raise InvalidArgumentError(f"num_elements must be positive, but is {count}")
        if not self._closed or self._ready.has_ended:
            return count
        available = self._ready.size
        wanted = count
        if up_to:
            wanted = min(count, available)
        else:
            available += len(self._incomplete)
        if available < max(wanted, 1):
            raise OutOfRangeError(
                f"Barrier '{self.name}' is closed and has insufficient elements "
                f"(requested {count}, total size {available})"
            )
        return wanted

    def close(self, *, cancel_pending_enqueues: bool = False) -> None:
        """Refuse new keys; those begun can be completed, unless they are to be cancelled.

        Raises CancelledError where it is closed already and this is not the first cancelling close.
        """
        if self._closed and (self._cancelled or not cancel_pending_enqueues):
            raise CancelledError(f"Barrier '{self.name}' is already closed.")
        self._closed = True
        self._cancelled = cancel_pending_enqueues
        if cancel_pending_enqueues:
            self._incomplete.clear()
        if not self._incomplete:
            self._close_ready()

    def _close_ready(self) -> None:
        if not self._ready.is_closed:
            self._ready.close_nowait(cancel_pending_enqueues=True)

    def destroy(self) -> None:
        """Drop all held values; waiting and later operations fail with CancelledError."""
        self._closed = self._cancelled = True
        self._incomplete.clear()
        self._ready.destroy()

    def read(self) -> Value:
        """Return the value of a reference handle to a barrier: container and name (string vector)."""
        handle = np.empty(2, dtype=object)
        handle[:] = [self.container.encode(), self.name.encode()]
        return handle
