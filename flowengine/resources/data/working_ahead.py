"""Datasets that work ahead of who asks: prefetch, parallel map, parallel interleave.

All of it is done in service tasks of the iteration, which begin when the first element is asked for and
stand still when so much is ready as may be, by number and by bytes. What goes wrong is kept and raised in its
place. `close` ends the tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import CancelledError, InternalError, OpError
from flowengine.devices.cores import available_cores
from flowengine.resources.data.dataset import DataIterator, Iteration
from flowengine.resources.elements import Element

#: Elements that are ready ahead at most take so many bytes; one may always be.
BYTES_AHEAD_MAX: Final = 256 * 1024 * 1024
#: What a number that is left to us stands for: more hides no longer waits, and takes memory.
AUTOTUNE: Final = -1
PREFETCH_TUNED: Final = 4
#: As many as there are cores, and two more: one that is there and waits to be taken, one on its way to a
#: thread. Of more, calls in Python wait for each other, and so does the event loop.
PARALLEL_TUNED: Final = max(2, available_cores()) + 2
#: The same on every machine, for it says in which order elements come.
CYCLE_TUNED: Final = 2


class AwaitedElement:
    """An element that is being made or is there, the end, or an error in its place.

    element   None for the end, and as long as it is not `done`
    """

    __slots__ = ("bytes", "done", "element", "error")

    def __init__(self) -> None:
        self.done = False
        self.element: Element | None = None
        self.error: OpError | None = None
        self.bytes = 0

    def set(self, element: Element | None) -> None:
        """It is there."""
        self.element, self.done = element, True

    def fail(self, error: OpError) -> None:
        """It went wrong."""
        self.error, self.done = error, True

    def value(self) -> Element | None:
        """The element, or its error raised."""
        if self.error is not None:
            raise self.error
        return self.element

    def kept(self) -> list[Any]:
        """Return the element and its error, for a saved state; an error is its class and message."""
        error = None if self.error is None else [type(self.error).__name__, self.error.message]
        return [self.element, error]

    @classmethod
    def of(cls, kept: list[Any]) -> AwaitedElement:
        """One that is there, from what `kept` has said."""
        from flowengine.core import errors

        made = cls()
        if kept[1] is None:
            made.set(kept[0])
        else:
            made.fail(getattr(errors, kept[1][0], errors.UnknownError)(kept[1][1]))
        return made


class Signal:
    """Wakes who waits until something has changed."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: trio.Event | None = None

    def fire(self) -> None:
        """Something has changed."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Until something changes. There may be several who wait."""
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()


async def outcome_of(make: Callable[[], Awaitable[Element | None]], outcome: AwaitedElement) -> None:
    """Make an element and keep what came of it."""
    try:
        outcome.set(await make())
    except OpError as error:
        outcome.fail(error)
    except Exception as error:
        # A fault of ours: whoever waits for the element is to hear of it.
        outcome.fail(InternalError(f"{type(error).__name__}: {error}"))


class AheadIterator(DataIterator):
    """An iterator with a line of outcomes, which a task of its own makes ahead in order.

    Subclasses say how many there may be (`limit`) and how one is begun (`begin`).
    """

    __slots__ = (
        "_bytes_taken",
        "_is_ended",
        "_scopes",
        "_started",
        "changed",
        "held",
        "input",
        "line",
        "pausing",
        "under_way",
    )

    def __init__(self, iteration: Iteration, source: DataIterator) -> None:
        super().__init__(iteration)
        self.input: DataIterator = source
        self.line: deque[AwaitedElement] = deque()
        self.changed = Signal()
        #: Bytes of what is ready; outcomes that are not.
        self.held = self.under_way = 0
        #: Bytes of the element that was taken last.
        self._bytes_taken = 0
        #: Somebody wants to know where this stands: nothing new is begun.
        self.pausing = False
        self._is_ended = False
        self._started = False
        self._scopes: set[trio.CancelScope] = set()

    def limit(self) -> int:
        """How many outcomes may be in the line."""
        return 1

    async def begin(self, outcome: AwaitedElement) -> None:
        """Make the next outcome, or have a task make it; set it to the end where there is no more."""
        raise AssertionError(f"{type(self).__name__} does not say what it makes")

    async def _work(self) -> None:
        """The task: begin outcomes as long as there is room."""
        while not self._is_ended:
            if self.pausing or not self._has_room():
                await self.changed.wait()
                continue
            try:
                await self.begin(self._next_outcome())
            except BaseException as error:
                self.changed.fire()
                if isinstance(error, CancelledError) and self.iteration.tasks.is_cancelled:
                    return  # ended while it was at it: nobody waits any more
                raise

    def _next_outcome(self) -> AwaitedElement:
        """One more at the end of the line. The task keeps no name for it: it may wait long for the next."""
        outcome = AwaitedElement()
        self.line.append(outcome)
        self.under_way += 1
        return outcome

    def _has_room(self) -> bool:
        count = len(self.line)
        return count < self.limit() and (self.held < BYTES_AHEAD_MAX or not count)

    def finished(self, outcome: AwaitedElement, size: int | None = None) -> None:
        """An outcome is there.

        size   its bytes, from whoever has counted them
        """
        self.under_way -= 1
        outcome.bytes = self.size_of(outcome) if size is None else size
        self.held += outcome.bytes
        self.changed.fire()

    def size_of(self, outcome: AwaitedElement) -> int:
        """The bytes that an outcome takes while it waits in the line."""
        return 0 if outcome.element is None else DataIterator.size_of_last(self, outcome.element)

    def size_of_last(self, element: Element) -> int:
        return self._bytes_taken

    def ended(self) -> None:
        """The input has no more: the task ends when it has begun what it is at."""
        self._is_ended = True

    def start(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Begin a task that `close` ends."""

        async def run() -> None:
            try:
                await work()
            finally:
                self._scopes.discard(scope)

        scope = self.iteration.tasks.start(run, name)
        self._scopes.add(scope)

    def wake(self) -> None:
        """Begin to work, if that was not done before."""
        if not self._started:
            self._started = True
            self.start(self._work, type(self).__name__.strip("_"))

    def is_ready(self) -> bool:
        """Whether the next element, the end or an error is there."""
        return bool(self.line) and self.line[0].done

    def next_nowait(self) -> Any:
        if not self.is_ready():
            return WOULD_WAIT
        return self._taken()

    async def next(self) -> Element | None:
        self.wake()
        while not self.is_ready():
            if self.iteration.tasks.is_cancelled:
                raise CancelledError("the iterator was ended while an element was made")
            await self.changed.wait()
        return self._taken()

    def _taken(self) -> Element | None:
        outcome = self.line[0]
        if outcome.error is None and outcome.element is None:
            return None  # the end stays
        self.line.popleft()
        self.held -= outcome.bytes
        self._bytes_taken = outcome.bytes
        self.changed.fire()
        return outcome.value()

    def close(self) -> None:
        for scope in self._scopes:
            scope.cancel()
        self.input.close()

    async def state(self) -> dict[str, Any]:
        self.pausing = True
        try:
            while self.under_way:
                await self.changed.wait()
            return {
                "line": [outcome.kept() for outcome in self.line],
                "is_ended": self._is_ended,
                "input": None if self._is_ended else await self.input.state(),
            }
        finally:
            self.pausing = False
            self.changed.fire()

    async def restore(self, state: dict[str, Any]) -> None:
        self.line = deque(AwaitedElement.of(kept) for kept in state["line"])
        for outcome in self.line:
            outcome.bytes = AheadIterator.size_of(self, outcome)
        self.held = sum(outcome.bytes for outcome in self.line)
        self._is_ended = state["is_ended"]
        if state["input"] is not None:
            await self.input.restore(state["input"])
