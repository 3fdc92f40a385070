"""Lines at the bottom of a terminal, one for each loop that runs, below what the program prints.

The cursor rests at the start of the last line. As long as there are lines, `sys.stdout` and `sys.stderr` pass
through here if they are this terminal: the lines are erased before the program's text, which is then written
as it is, and drawn again by the next step once that text has ended in a newline.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO, cast
from weakref import WeakValueDictionary

from flowengine.train.progress.screens import LOCK, write
from flowengine.train.progress.wording import ProgressStatus

#: A loop that ends sooner shows nothing.
_FIRST_SECONDS: Final = 0.5
#: A person reads no faster, and drawing takes 80 us.
_SECONDS: Final = 0.1
_COLUMNS: Final = 80


class TerminalScreen:
    """The lines of one terminal. Threads may use it at once."""

    #: {number of a stream: its screen}, of those that some loop uses.
    _known: Final[WeakValueDictionary[int, TerminalScreen]] = WeakValueDictionary()

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        #: {loop: its line}, from above downwards.
        self._lines: dict[object, str] = {}
        #: How many of them the terminal shows at this moment.
        self._drawn = 0
        #: Whether the program's text ended in a newline; if not, a line would be drawn into it.
        self._is_at_start = True
        #: What stands in for the program's streams: {"stdout" or "stderr": it}
        self._passing: dict[str, PassingStream] = {}
        self._handlers: list[logging.StreamHandler[Any]] = []
        self._marks = "━─" if _can_write(stream, "━─") else "#."

    @classmethod
    def of(cls, stream: TextIO) -> TerminalScreen:
        """Return the one of this stream, which all loops share."""
        with LOCK:
            if sys.platform == "win32" and id(stream) not in cls._known:
                os.system("")  # lets a console of Windows understand what moves the cursor
            return cls._known.setdefault(id(stream), cls(stream))

    def wait(self, seconds: float) -> float:
        return _SECONDS if seconds else _FIRST_SECONDS

    def show(self, loop: object, status: ProgressStatus) -> None:
        with LOCK:
            if not self._lines:
                self._begin()
            self._lines[loop] = self._line_of(status)
            self._draw()

    def close(self, loop: object, status: ProgressStatus) -> None:
        """Leave the loop's line above the others, as a line that the program has printed."""
        with LOCK:
            if self._lines.pop(loop, None) is None:
                return
            self._erase()
            before = "" if self._is_at_start else "\n"
            write(self._stream, f"{before}{self._line_of(status)}\n")
            self._is_at_start = True
            if self._lines:
                self._draw()
            else:
                self._end()

    def say(self, text: str) -> None:
        self.passes(self._stream, f"{text}\n")
        self._stream.flush()

    def passes(self, stream: TextIO, text: str) -> int:
        """Write a text of the program to one of its streams."""
        with LOCK:
            self._erase()
            if text:
                self._is_at_start = text.endswith("\n")
            return stream.write(text)

    def makes_room(self) -> None:
        """Erase the lines, for what is about to write to the terminal by another way."""
        with LOCK:
            self._erase()

    def _line_of(self, status: ProgressStatus) -> str:
        has_colour = not os.environ.get("NO_COLOR")
        return status.bar_line(_columns_of(self._stream), marks=self._marks, has_colour=has_colour)

    def _draw(self) -> None:
        if not self._is_at_start:
            return
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        # Line over line, and only then what is left of longer ones: nothing flickers.
        lines = "\x1b[K\n".join(self._lines.values())
        if write(self._stream, f"\r{up}{lines}\x1b[J\r"):
            self._drawn = len(self._lines)

    def _erase(self) -> None:
        if self._drawn:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            write(self._stream, f"\r{up}\x1b[J")
            self._drawn = 0

    def _begin(self) -> None:
        """Let the program's streams pass through here."""
        # Where the cursor is, nobody knows: these spaces go on into the next line if it is not at a start.
        write(self._stream, f"{' ' * _columns_of(self._stream)}\r")
        self._is_at_start = True
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is self._stream or _is_same_terminal(stream, self._stream):
                passing = self._passing[name] = PassingStream(stream, self)
                setattr(sys, name, passing)
        passing_error = self._passing.get("stderr")
        for handler in logging.getLogger().handlers if passing_error is not None else ():
            # `logging.basicConfig()` has kept the stream itself.
            if isinstance(handler, logging.StreamHandler) and handler.stream is self._stream:
                handler.setStream(passing_error)
                self._handlers.append(handler)

    def _end(self) -> None:
        """Give the program its streams back, where it has not put others there."""
        passing_error = self._passing.get("stderr")
        for handler in self._handlers:
            if handler.stream is passing_error:
                handler.setStream(self._stream)
        self._handlers.clear()
        for name, passing in self._passing.items():
            if getattr(sys, name) is passing:
                setattr(sys, name, passing.stream)
        self._passing.clear()


class PassingStream:
    """A stream of the program as long as lines are shown: the stream itself, but for what it writes."""

    def __init__(self, stream: TextIO, screen: TerminalScreen) -> None:
        self.stream = stream
        self._screen = screen

    def write(self, text: str) -> int:
        return self._screen.passes(self.stream, text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "fileno"):
            self._screen.makes_room()
        return getattr(self.stream, name)

    def __enter__(self) -> PassingStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def __iter__(self) -> Any:
        return iter(self.stream)


def behind(stream: TextIO) -> TextIO:
    """Return the program's own stream where another loop's lines are shown already."""
    while isinstance(stream, PassingStream):
        stream = stream.stream
    return stream


def _columns_of(stream: TextIO) -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except (OSError, ValueError):
        return _COLUMNS


def _is_same_terminal(stream: Any, other: TextIO) -> bool:
    try:
        if stream is None or not stream.isatty():
            return False
        mine, theirs = os.fstat(stream.fileno()), os.fstat(other.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return os.path.samestat(mine, theirs)


def _can_write(stream: TextIO, text: str) -> bool:
    try:
        text.encode(cast("str", getattr(stream, "encoding", None) or "ascii"))
    except (LookupError, UnicodeEncodeError):
        return False
    return True


__all__ = ["PassingStream", "TerminalScreen", "behind"]
