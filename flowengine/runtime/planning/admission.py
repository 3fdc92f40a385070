"""The number of steps of a session that run, and that wait: `Config(max_steps=, max_waiting_steps=)`.

Steps begin in order of arrival. A step that finds no room in the line is refused at once, before its values
are read or its plan is made.
"""

from __future__ import annotations

from collections import deque

import trio

from flowengine.core.config import Settings
from flowengine.core.errors import CancelledError, FailedPreconditionError, ResourceExhaustedError
from flowengine.core.run_options import RunOptions, timeout_of
from flowengine.runtime.run_metadata import RunMetadata, record_refusal
from flowengine.runtime.step import too_late


class StepAdmission:
    """Lets steps begin: `enter` before, `leave` after.

    running   the number of steps between the two
    refused   the number of steps that found no room
    """

    def __init__(self, max_steps: int, max_waiting_steps: int | None) -> None:
        """`max_waiting_steps` is None for a line without an end."""
        self.running = 0
        self.refused = 0
        self._max_steps = max_steps
        self._max_waiting = max_waiting_steps
        self._waiting: deque[trio.Event] = deque()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Return the number of steps that wait to begin."""
        return len(self._waiting)

    async def enter(self, options: RunOptions | None, metadata: RunMetadata | None = None) -> float:
        """Wait until a step may begin; return the seconds that it took, and record them in its metadata.

        options   of the step, with its timeout

        Raises ResourceExhaustedError if too many wait, DeadlineExceededError when the time is over,
        CancelledError when the session is closed meanwhile, FailedPreconditionError if it was closed before.
        In all of these cases, and if cancelled, the step has not begun and nothing is left in the line.
        """
        if self._is_closed:
            raise FailedPreconditionError("this session is closed: open another")
        if self.running < self._max_steps and not self._waiting:
            self.running += 1
            return 0.0
        if self._max_waiting is not None and len(self._waiting) >= self._max_waiting:
            self.refused += 1
            raise ResourceExhaustedError(
                f"{self.running} steps of this session run and {len(self._waiting)} wait: try later, or "
                f"raise the bounds (max_steps={self._max_steps}, max_waiting_steps={self._max_waiting})"
            )
        timeout_seconds = None if options is None else timeout_of(options)
        waiter = trio.Event()
        self._waiting.append(waiter)
        before = trio.current_time()
        is_admitted = False
        try:
            with trio.move_on_after(float("inf") if timeout_seconds is None else timeout_seconds):
                await waiter.wait()
            if self._is_closed:
                raise CancelledError("the session was closed while this step was waiting to begin")
            waited = trio.current_time() - before
            if timeout_seconds is not None and (waited >= timeout_seconds or not waiter.is_set()):
                raise too_late(timeout_seconds)
            is_admitted = True
        finally:
            if not is_admitted:
                self._withdraw(waiter)
            if metadata is not None:
                metadata.admission_seconds = trio.current_time() - before
                if not is_admitted:
                    record_refusal(options, metadata)
        return waited

    def _withdraw(self, waiter: trio.Event) -> None:
        """Remove a step that no longer waits.

        Its turn may have come while it was woken for another reason.
        """
        if waiter.is_set():
            self.leave()
        else:
            self._waiting.remove(waiter)

    def leave(self) -> None:
        """Record the end of a step: the next one begins instead."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self.running -= 1

    def close(self) -> None:
        """Let no more steps begin; those that wait end with CancelledError."""
        self._is_closed = True
        while self._waiting:
            # As one whose turn has come: it gives its place back when it ends.
            self.running += 1
            self.leave()


def admission_of(settings: Settings) -> StepAdmission | None:
    """Return the admission of a session's steps; None if it runs any number of them."""
    most = settings.max_steps
    return None if most is None else StepAdmission(most, settings.max_waiting_steps)


__all__ = ["StepAdmission", "admission_of"]
