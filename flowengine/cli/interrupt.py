"""Ctrl-C ends the command within a second, whatever it is doing, but for keeping what `--output` promised.

In a step, Ctrl-C cancels: the step gives back what it held and ends at its next item. Outside, it is Python's
KeyboardInterrupt. A single kernel may run for longer than anybody wants to wait, and a second Ctrl-C says so
outright: then the process ends without further ado.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final

from flowengine.cli.failure import INTERRUPTED

#: How long a cancelled step may take to end by itself, so that the whole stays under a second.
GRACE_SECONDS: Final = 0.7


class Interrupt:
    """The handler of SIGINT while a command runs; a context manager.

    ends_process   whether to end the process when the grace is over; not so inside a host program
    """

    def __init__(self, *, ends_process: bool) -> None:
        self.seen = False
        self._ends_process = ends_process
        self._scope: Any = None
        self._token: Any = None
        self._previous: Any = None
        self._installed = False
        self._watchdog: threading.Timer | None = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an interrupt the handler of a process about to end stays: one more Ctrl-C, during the
        # interpreter's own clean-up, must not print a traceback.
        if self._installed and not (self.seen and self._ends_process):
            signal.signal(signal.SIGINT, self._previous)

    def cancels(self, scope: Any, token: Any) -> None:
        """From now on cancel this trio scope; `token` is the trio run's. None for both: no longer."""
        self._scope, self._token = scope, token

    def waits(self) -> None:
        """Let promised work finish: only a second Ctrl-C ends the process before that is done."""
        if self._watchdog is not None:
            self._watchdog.cancel()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.seen = self.seen, True
        if again and self._ends_process:
            os._exit(INTERRUPTED)
        if self._ends_process:
            self._watchdog = threading.Timer(GRACE_SECONDS, os._exit, (INTERRUPTED,))
            self._watchdog.daemon = True
            self._watchdog.start()
        if self._scope is None:
            raise KeyboardInterrupt
        self._token.run_sync_soon(self._scope.cancel)
