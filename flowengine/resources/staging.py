"""Staging areas: values put aside for a later step, in order (`StagingArea`) or by key (`StagingMap`).

Both are bounded by a number of elements and of bytes; whoever puts waits for room, whoever takes waits
for what it wants. As with queues the areas are synchronous machines with coroutines at their end, and a
cancelled wait has changed nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from flowengine.core.accounting import Account, bytes_of
from flowengine.core.arrays import WOULD_WAIT, Value
from flowengine.core.errors import CancelledError, InvalidArgumentError, ResourceExhaustedError
from flowengine.resources.elements import Element, own
from flowengine.resources.waiting import Attempt, AttemptCrowd, AttemptLine, Condition, wait_finished


def _bytes_of(values: Sequence[Value]) -> int:
    return sum(map(bytes_of, values))


class _Area:
    """Room, and the two groups that wait. capacity, memory_limit: not positive means no bound."""

    kind: ClassVar[str] = "Staging Area"
    __slots__ = (
        "__weakref__",
        "_gets",
        "_puts",
        "account",
        "bytes_held",
        "capacity",
        "container",
        "memory_limit",
        "name",
    )

    def __init__(self, name: str, *, capacity: int = 0, memory_limit: int = 0, container: str = "") -> None:
        self.name = name
        self.container = container
        self.capacity = capacity
        self.memory_limit = memory_limit
        #: Set by the resource manager: where values are booked.
        self.account: Account | None = None
        self.bytes_held = 0
        self._puts = AttemptLine()
        self._gets = AttemptCrowd()

    def _has_room(self, elements: int, size: int) -> bool:
        if self.capacity > 0 and elements >= self.capacity:
            return False
        return self.memory_limit <= 0 or self.bytes_held + size <= self.memory_limit

    def _book(self, size: int) -> None:
        self.bytes_held += size
        if self.account is not None:
            self.account.book(self, self.bytes_held, self.name)

    def _check_size(self, size: int) -> None:
        if self.account is not None:
            self.account.check(size)
        if 0 < self.memory_limit < size:
            raise ResourceExhaustedError(
                f"Attempted to insert tensors with combined size of '{size}' bytes into {self.kind} "
                f"'{self.name}' with a memory limit of '{self.memory_limit}'."
            )

    def _advance(self) -> None:
        while self._puts.advance() | self._gets.advance():
            pass

    def _try_put(self, put: Callable[[], Any]) -> Any:
        """Put at once if nobody waits to put before."""
        if self._puts or put() is WOULD_WAIT:
            return WOULD_WAIT
        self._advance()
        return None

    def _try_get(self, get: Callable[[], Any]) -> Any:
        result = get()
        if result is not WOULD_WAIT and self._puts:
            self._advance()
        return result

    async def _wait(self, group: AttemptLine | AttemptCrowd, call: Callable[[], Any]) -> Any:
        attempt = Condition(call)
        group.join(attempt)
        self._advance()

        def withdraw(waiting: Attempt) -> None:
            group.leave(waiting)
            self._advance()

        return await wait_finished(attempt, withdraw)

    def destroy(self) -> None:
        """Everybody who waits, or comes later, fails with CancelledError; the elements are dropped."""
        for group in (self._puts, self._gets):
            group.end(lambda _: CancelledError(f"{self.kind} '{self.name}' was removed"))
        self.clear()

    def clear(self) -> None:
        """Drop all elements; those who wait for room get it."""
        raise AssertionError(f"{type(self).__name__} has no store")


class StagingArea(_Area):
    """First in, first out; any position can be looked at."""

    __slots__ = ("_store",)

    def __init__(self, name: str, *, capacity: int = 0, memory_limit: int = 0, container: str = "") -> None:
        super().__init__(name, capacity=capacity, memory_limit=memory_limit, container=container)
        self._store: deque[Element] = deque()

    def __len__(self) -> int:
        return len(self._store)

    def put_nowait(self, values: Element) -> Any:
        """Add an element: None, or WOULD_WAIT with nothing changed. For errors see `put`."""
        return self._try_put(self._putter(values))

    async def put(self, values: Element) -> None:
        """Add an element, waiting for room; ResourceExhaustedError for one larger than the limit."""
        put = self._putter(values)
        if self._try_put(put) is WOULD_WAIT:
            await self._wait(self._puts, put)

    def _putter(self, values: Element) -> Callable[[], Any]:
        size = _bytes_of(values)
        self._check_size(size)

        def put() -> Any:
            if not self._has_room(len(self._store), size):
                return WOULD_WAIT
            self._store.append(own(values))
            self._book(size)
            return None

        return put

    def get_nowait(self) -> Any:
        """Take the oldest element, or WOULD_WAIT."""
        return WOULD_WAIT if self._gets else self._try_get(self._get)

    async def get(self) -> Element:
        """Take the oldest element, waiting for one."""
        found = self.get_nowait()
        if found is WOULD_WAIT:
            found = await self._wait(self._gets, self._get)
        element: Element = found
        return element

    def _get(self) -> Any:
        if not self._store:
            return WOULD_WAIT
        values = self._store.popleft()
        self._book(-_bytes_of(values))
        return values

    def peek_nowait(self, index: int) -> Any:
        """The element at this position, which stays, or WOULD_WAIT."""
        if index < 0:
            raise InvalidArgumentError(f"index {index} of a staged element is negative")
        return self._store[index] if index < len(self._store) else WOULD_WAIT

    async def peek(self, index: int) -> Element:
        """The element at this position, which stays, waiting until there are so many."""
        found = self.peek_nowait(index)
        if found is WOULD_WAIT:
            found = await self._wait(self._gets, lambda: self.peek_nowait(index))
        element: Element = found
        return element

    def clear(self) -> None:
        self._store.clear()
        self._book(-self.bytes_held)
        self._advance()


class StagingMap(_Area):
    """By key. An entry becomes visible when all its components have been put, by one or by several.

    components   how many an entry has
    ordered      whether taking without a key takes the smallest key, rather than the oldest entry
    """

    kind = "Staging Map"
    __slots__ = ("_complete", "_incomplete", "components", "ordered")

    def __init__(
        self,
        name: str,
        components: int,
        *,
        ordered: bool,
        capacity: int = 0,
        memory_limit: int = 0,
        container: str = "",
    ) -> None:
        super().__init__(name, capacity=capacity, memory_limit=memory_limit, container=container)
        self.components = components
        self.ordered = ordered
        #: {key: {component index: value}}; parts of a complete entry may have been taken.
        self._complete: dict[int, dict[int, Value]] = {}
        self._incomplete: dict[int, dict[int, Value]] = {}

    def __len__(self) -> int:
        return len(self._complete)

    @property
    def incomplete_size(self) -> int:
        return len(self._incomplete)

    def put_nowait(self, key: int, indices: Sequence[int], values: Element) -> Any:
        """Add components of an entry: None, or WOULD_WAIT with nothing changed. See `put`."""
        return self._try_put(self._putter(key, indices, values))

    async def put(self, key: int, indices: Sequence[int], values: Element) -> None:
        """Add components of an entry, waiting for room.

        Raises InvalidArgumentError where a component is there already or does not exist, and
        ResourceExhaustedError for values larger than the limit.
        """
        put = self._putter(key, indices, values)
        if self._try_put(put) is WOULD_WAIT:
            await self._wait(self._puts, put)

    def _putter(self, key: int, indices: Sequence[int], values: Element) -> Callable[[], Any]:
        if len(indices) != len(values):
            raise InvalidArgumentError(f"{len(indices)} indices were given for {len(values)} staged values")
        if len(set(indices)) != len(indices):
            raise InvalidArgumentError(f"an index occurs twice among {list(indices)}")
        self._check_indices(indices)
        size = _bytes_of(values)
        self._check_size(size)

        def put() -> Any:
            if key in self._complete:
                raise InvalidArgumentError(
                    f"The tensors of key {key} are in {self.kind} '{self.name}' already"
                )
            present = self._incomplete.get(key, {})
            for index in indices:
                if index in present:
                    raise InvalidArgumentError(
                        f"The tensor for index '{index}' for key '{key}' was already initialized"
                    )
            if not self._has_room(len(self._complete), size):
                return WOULD_WAIT
            entry = {**present, **dict(zip(indices, own(values), strict=True))}
            self._book(size)
            if len(entry) == self.components:
                self._incomplete.pop(key, None)
                self._complete[key] = entry
            else:
                self._incomplete[key] = entry
            return None

        return put

    def _check_indices(self, indices: Sequence[int]) -> None:
        for index in indices:
            if not 0 <= index < self.components:
                raise InvalidArgumentError(
                    f"Index '{index}' for staged tensors lies outside of [0, {self.components})"
                )

    def get_nowait(self, key: int | None, indices: Sequence[int]) -> Any:
        """Take components, as (key, values), or WOULD_WAIT with nothing changed. See `get`."""
        self._check_indices(indices)
        return self._try_get(lambda: self._look(key, indices, take=True))

    async def get(self, key: int | None, indices: Sequence[int]) -> tuple[int, Element]:
        """Take components of an entry, waiting for it: (key, values). The entry goes with its last one.

        With None for key, of the first entry. Raises InvalidArgumentError for a component that does
        not exist or has been taken.
        """
        found = self.get_nowait(key, indices)
        if found is WOULD_WAIT:
            found = await self._wait(self._gets, lambda: self._look(key, indices, take=True))
        entry: tuple[int, Element] = found
        return entry

    def peek_nowait(self, key: int, indices: Sequence[int]) -> Any:
        """Components of an entry, which stay, as (key, values), or WOULD_WAIT."""
        self._check_indices(indices)
        return self._look(key, indices, take=False)

    async def peek(self, key: int, indices: Sequence[int]) -> tuple[int, Element]:
        """Components of an entry, which stay, waiting for it: (key, values)."""
        found = self.peek_nowait(key, indices)
        if found is WOULD_WAIT:
            found = await self._wait(self._gets, lambda: self._look(key, indices, take=False))
        entry: tuple[int, Element] = found
        return entry

    def _look(self, key: int | None, indices: Sequence[int], *, take: bool) -> Any:
        if key is None:
            if not self._complete:
                return WOULD_WAIT
            key = min(self._complete) if self.ordered else next(iter(self._complete))
        entry = self._complete.get(key)
        if entry is None:
            return WOULD_WAIT
        for index in indices:
            if index not in entry:
                raise InvalidArgumentError(
                    f"Tensor at index '{index}' for key '{key}' has already been removed."
                )
        values = tuple(entry[index] for index in indices)
        if take:
            for index in indices:
                entry.pop(index, None)
            self._book(-_bytes_of(values))
            if not entry:
                del self._complete[key]
        return key, values

    def clear(self) -> None:
        self._complete.clear()
        self._incomplete.clear()
        self._book(-self.bytes_held)
        self._advance()
