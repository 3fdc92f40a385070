"""Waiting in line, without a clock, a thread or an event loop.

An `Attempt` is something that may have to wait: it advances as far as the state of its resource allows.
An `AttemptLine` holds attempts in order of arrival and lets nobody overtake, an `AttemptCrowd` lets go on
whoever can. A resource that is removed ends them: who comes to it later is told so, and waits for nothing.
The resource calls `advance` on
its lines whenever something changed; `wait_finished` is the thin asynchronous shell around one attempt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import trio

from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import OpError


class Attempt:
    """One operation on its way. Subclasses say how it advances and how it is taken back."""

    __slots__ = ("error", "finished", "result", "wake")

    def __init__(self) -> None:
        self.finished = False
        self.error: Exception | None = None
        self.result: Any = None
        #: Called once, when the attempt is finished.
        self.wake: Callable[[], object] | None = None

    def advance(self) -> bool:
        """Do what can be done now and return whether anything was; sets `finished` at the end."""
        raise AssertionError(f"{type(self).__name__} does not say how it advances")

    def undo(self) -> None:
        """Give back what an unfinished attempt holds; the attempt has left its line already."""

    def finish(self, result: Any = None) -> bool:
        self.finished = True
        self.result = result
        return True

    def fail(self, error: Exception) -> bool:
        self.finished = True
        self.error = error
        return True

    def outcome(self) -> Any:
        """The result of a finished attempt, or its error raised."""
        if self.error is not None:
            error, self.error = self.error, None
            try:
                raise error
            finally:
                del error  # it knows the frames that know the attempt
        return self.result


class _Attempts:
    """Those who wait, in order of arrival. Subclasses say who goes on."""

    __slots__ = ("_end", "attempts")

    def __init__(self) -> None:
        #: The front came first. Read it to see who waits; change it by methods only.
        self.attempts: deque[Attempt] = deque()
        self._end: Callable[[Attempt], Exception] | None = None

    def __len__(self) -> int:
        return len(self.attempts)

    def __bool__(self) -> bool:
        """Whether who comes now must join: somebody waits, or nobody is served any more."""
        return bool(self.attempts) or self._end is not None

    @property
    def has_ended(self) -> bool:
        """Whether nobody is served any more."""
        return self._end is not None

    def join(self, attempt: Attempt) -> None:
        """Wait behind those who came before; after `end` the attempt has failed at once."""
        if self._end is None:
            self.attempts.append(attempt)
        else:
            attempt.fail(self._end(attempt))

    def leave(self, attempt: Attempt) -> None:
        """Take an unfinished attempt out and have it give back what it holds."""
        self.attempts.remove(attempt)
        attempt.undo()

    def fail_all(self, error: Callable[[Attempt], Exception]) -> None:
        """Finish every attempt with an error of its own."""
        attempts, self.attempts = self.attempts, deque()
        for attempt in attempts:
            attempt.fail(error(attempt))
            if attempt.wake is not None:
                attempt.wake()

    def end(self, error: Callable[[Attempt], Exception]) -> None:
        """Finish every attempt with an error of its own, and each that comes later."""
        self._end = error
        self.fail_all(error)


class AttemptLine(_Attempts):
    """Attempts of which nobody overtakes another."""

    __slots__ = ()

    def advance(self) -> bool:
        """Advance from the front until one cannot finish; whether anything was done."""
        moved = False
        while self.attempts:
            first = self.attempts[0]
            if first.advance():
                moved = True
            if not first.finished:
                break
            self.attempts.popleft()
            if first.wake is not None:
                first.wake()
        return moved


class AttemptCrowd(_Attempts):
    """Attempts that wait for different things: whoever can go on does, the earliest first."""

    __slots__ = ()

    def advance(self) -> bool:
        """Advance each once; whether anything was done."""
        moved = False
        for attempt in tuple(self.attempts):
            if attempt.advance():
                moved = True
                if attempt.finished and attempt.wake is not None:
                    attempt.wake()
        if moved:
            self.attempts = deque(attempt for attempt in self.attempts if not attempt.finished)
        return moved


class Condition(Attempt):
    """An attempt that is one call: it returns WOULD_WAIT until it can be done."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call

    def advance(self) -> bool:
        """Call; an error of the call ends the attempt with it."""
        try:
            result = self._call()
        except OpError as error:
            return self.fail(error)
        return False if result is WOULD_WAIT else self.finish(result)


async def wait_finished(attempt: Attempt, withdraw: Callable[[Attempt], object]) -> Any:
    """The outcome of an attempt that stands in a line. Returns at once, without a checkpoint, if finished.

    Cancelled, it calls `withdraw(attempt)`, which takes the attempt out of its line; an attempt that
    has finished by then keeps its effect and its result is returned.
    """
    if not attempt.finished:
        task = trio.lowlevel.current_task()
        attempt.wake = lambda: trio.lowlevel.reschedule(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            attempt.wake = None
            withdraw(attempt)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
    return attempt.outcome()
