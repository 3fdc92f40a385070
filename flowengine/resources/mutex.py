"""Mutex: held by one lock at a time, given in order of arrival."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import CancelledError, InvalidArgumentError
from flowengine.resources.waiting import AttemptLine, Condition, wait_finished


class MutexLock:
    """The right that a mutex gave: ends when released, at the latest with the step."""

    __slots__ = ("__weakref__", "_mutex", "name")

    def __init__(self, mutex: Mutex) -> None:
        self.name = f"lock of {mutex.name}"
        self._mutex: Mutex | None = mutex

    def release(self) -> None:
        """Let the next one in; InvalidArgumentError where the lock was released before."""
        mutex, self._mutex = self._mutex, None
        if mutex is None:
            raise InvalidArgumentError(f"{self.name} was released already")
        mutex._release(self)

    def destroy(self) -> None:
        """Release, if that was not done: the step has ended."""
        if self._mutex is not None:
            self.release()


class Mutex:
    """See the module.

    exists   whether anybody has asked for a lock yet
    """

    __slots__ = ("__weakref__", "_holder", "_line", "container", "exists", "name")

    def __init__(self, name: str, *, container: str = "") -> None:
        self.name = name
        self.container = container
        self.exists = False
        self._holder: MutexLock | None = None
        self._line = AttemptLine()

    @property
    def is_locked(self) -> bool:
        return self._holder is not None

    def lock_nowait(self) -> Any:
        """A lock, or WOULD_WAIT."""
        self.exists = True
        return WOULD_WAIT if self._line else self._lock()

    async def lock(self) -> MutexLock:
        """A lock, waiting for it behind those who came before. Cancelled, it has none."""
        found = self.lock_nowait()
        if found is WOULD_WAIT:
            attempt = Condition(self._lock)
            self._line.join(attempt)

            def withdraw(_: object) -> None:
                self._line.leave(attempt)
                self._line.advance()

            found = await wait_finished(attempt, withdraw)
        lock: MutexLock = found
        return lock

    def _lock(self) -> Any:
        if self._holder is not None:
            return WOULD_WAIT
        self._holder = MutexLock(self)
        return self._holder

    def _release(self, lock: MutexLock) -> None:
        if self._holder is lock:
            self._holder = None
            self._line.advance()

    def destroy(self) -> None:
        """Everybody who waits, or comes later, fails with CancelledError."""
        self._line.end(lambda _: CancelledError(f"mutex '{self.name}' was removed"))
