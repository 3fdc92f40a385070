"""The baton: a lock that lets a caller's thread do a step's work instead of the thread of a trio run.

The run of a portal holds it except while it waits for I/O. A caller that has it meanwhile may touch
everything of the run, because nothing of the run executes. Only the run's own thread may wake a task.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from types import FrameType
from typing import Any, Final

import trio

from flowengine.core.errors import FailedPreconditionError

#: The C functions below those of `signal`. The latter first look for each handler among enumerations: its
#: repr, 40 us for that of asyncio, becomes the message of an error that they catch.
_signal: Final[Any] = import_module("_signal")
_INTERRUPT: Final[int] = _signal.SIGINT


#: After a result, a run usually waits for I/O again within this time: a caller that asks at once waits.
_RUN_PATIENCE: Final = 200e-6
#: If that was in vain, the run has more to do: no caller waits for it in so many seconds.
_IMPATIENT_SECONDS: Final = 0.005


class Baton(trio.abc.Instrument):
    """The lock that a run holds except while it waits for I/O.

    A run that is over keeps it: no caller works for it any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The run is ready and wants it: callers leave it alone.
        self._is_wanted = False
        self._is_free = False
        #: The thread of the caller that has it.
        self._holder: int | None = None
        self._impatient_until = 0.0

    def before_run(self) -> None:
        self._lock.acquire()

    def before_io_wait(self, timeout: float) -> None:
        """Let callers have it, unless the run has tasks to continue."""
        if timeout > 0:
            self._is_free = True
            self._lock.release()

    def after_io_wait(self, timeout: float) -> None:
        """Take it back before any task runs. A caller keeps it for one slice at most."""
        if self._is_free:
            self._is_wanted = True
            self._lock.acquire()
            self._is_free = self._is_wanted = False

    def take(self, patience: float) -> bool:
        """Take it for a caller, who returns it with `give`; False if it cannot be had now.

        patience   seconds to wait for another caller, who has it for no longer than a slice

        Raises FailedPreconditionError in the thread that has it.
        """
        holder, own = self._holder, threading.get_ident()
        if holder == own:
            raise FailedPreconditionError(
                "this session is used while it runs a step in this thread, by something that the step calls "
                "(such as the `__array__` of a feed): use another session there, or compute the value before"
            )
        if self._is_wanted:
            return False
        if not self._lock.acquire(blocking=False) and not self._wait(holder, patience):
            return False
        self._holder = own
        return True

    def _wait(self, holder: int | None, patience: float) -> bool:
        """Wait for its holder; return whether it could be had."""
        if holder is not None:
            return patience > 0 and self._lock.acquire(timeout=patience)
        now = perf_counter()
        if now < self._impatient_until:
            return False
        if self._lock.acquire(timeout=_RUN_PATIENCE):
            return True
        self._impatient_until = now + _IMPATIENT_SECONDS
        return False

    def give(self) -> None:
        """Return it."""
        self._holder = None
        self._lock.release()


class DeferredInterrupt:
    """Keeps Ctrl-C while a step runs in the main thread, which it would tear apart: `restore`, `deliver`.

    Only a handler written in Python can interrupt Python code, and only the main thread.
    """

    __slots__ = ("_came", "_handler")

    def __init__(self) -> None:
        self._came = False
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        if threading.current_thread() is threading.main_thread():
            handler = _signal.getsignal(_INTERRUPT)
            if callable(handler):
                self._handler = handler
                _signal.signal(_INTERRUPT, self._keep)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._came = True

    def restore(self) -> None:
        """Let the handler receive later signals."""
        if self._handler is not None:
            _signal.signal(_INTERRUPT, self._handler)

    def deliver(self) -> None:
        """Call the handler for the kept signals; its exceptions pass through."""
        if self._came and self._handler is not None:
            self._came = False
            self._handler(_INTERRUPT, sys._getframe())


__all__ = ["Baton", "DeferredInterrupt"]
