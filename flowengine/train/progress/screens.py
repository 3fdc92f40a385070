"""Screens that show progress: lines in a log, one line in a notebook, or nothing.

`terminal.TerminalScreen` is for terminals. All of them write to standard error, so the standard output of a
program does not change, and none of them raises if it cannot write.
"""

from __future__ import annotations

from contextlib import suppress
from threading import RLock
from typing import Any, Final, Protocol, TextIO

from flowengine.train.progress.wording import ProgressStatus

#: One for all: several loops, in several threads, may write at once.
LOCK: Final = RLock()


class Screen(Protocol):
    """A screen for the progress of several loops; each loop is known by an object of its own."""

    def wait(self, seconds: float) -> float:
        """Return how long nothing is to be shown, `seconds` after a loop has begun."""

    def show(self, loop: object, status: ProgressStatus) -> None:
        """Show how far a loop has got, in place of what was shown before."""

    def close(self, loop: object, status: ProgressStatus) -> None:
        """Show for the last time how far a loop has got that was shown before."""

    def say(self, text: str) -> None:
        """Show a text of several lines."""


class NoScreen:
    """Shows nothing."""

    def wait(self, seconds: float) -> float:
        return float("inf")

    def show(self, loop: object, status: ProgressStatus) -> None:
        return

    def close(self, loop: object, status: ProgressStatus) -> None:
        return

    def say(self, text: str) -> None:
        return


class LogLines:
    """A line now and then, for a file or a pipe."""

    #: Short programs print nothing. A run of a day prints fewer than 1500 lines, and a new run prints its
    #: first line soon.
    _SECONDS: Final = 10.0
    _SECONDS_MAX: Final = 60.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def wait(self, seconds: float) -> float:
        return min(max(seconds / 10, self._SECONDS), self._SECONDS_MAX)

    def show(self, loop: object, status: ProgressStatus) -> None:
        with LOCK:
            write(self._stream, f"{status.line()}\n")

    def close(self, loop: object, status: ProgressStatus) -> None:
        if status.is_complete:  # else an error says how it ended
            self.show(loop, status)

    def say(self, text: str) -> None:
        with LOCK:
            write(self._stream, f"{text}\n")


class NotebookLine:
    """One output of a notebook's cell for each loop, which is updated in place."""

    _SECONDS: Final = 0.5

    def __init__(self) -> None:
        self._handles: dict[object, Any] = {}

    def wait(self, seconds: float) -> float:
        return self._SECONDS

    def show(self, loop: object, status: ProgressStatus) -> None:
        bundle = {"text/plain": status.line()}
        with LOCK, suppress(Exception):  # the front end may have been closed
            handle = self._handles.get(loop)
            if handle is None:
                self._handles[loop] = _display(bundle)
            else:
                handle.update(bundle, raw=True)

    def close(self, loop: object, status: ProgressStatus) -> None:
        self.show(loop, status)
        self._handles.pop(loop, None)

    def say(self, text: str) -> None:
        with LOCK, suppress(Exception):
            _display({"text/plain": text})


def write(stream: TextIO, text: str) -> bool:
    """Write a text whole, and return whether it could be written."""
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):  # its reader has ended, it is closed, or it cannot encode this text
        return False
    return True


def _display(bundle: dict[str, str]) -> Any:
    """Add an output to the notebook's cell, and return what updates it."""
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    return display(bundle, raw=True, display_id=True)


__all__ = ["LOCK", "LogLines", "NoScreen", "NotebookLine", "Screen", "write"]
