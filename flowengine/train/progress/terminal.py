"""Lines at the bottom of a terminal, one for each loop that runs, below the program's output.

rich's `Live` draws the lines. While they are shown, `sys.stdout` and `sys.stderr` pass through this module if
they are the same terminal: it erases the lines, writes the program's text unchanged, and the next step draws
the lines again once that text has ended in a newline. rich could redirect the streams as well, but it wraps
and colours the text, ends a flushed part of a line with a newline, and hides the stream's encoding.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TextIO, cast
from weakref import WeakValueDictionary

from flowengine.train.progress.screens import LOCK, LogLines, NoScreen, NotebookLine, Screen, write
from flowengine.train.progress.wording import ProgressStatus

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

#: A loop that ends sooner shows nothing.
_FIRST_SECONDS: Final = 0.5
#: A person reads no faster, and drawing takes 0.5 ms.
_SECONDS: Final = 0.1


class TerminalScreen:
    """The lines of one terminal. Threads may use it at once."""

    #: {number of a stream: its screen}, of those that some loop uses.
    _known: Final[WeakValueDictionary[int, TerminalScreen]] = WeakValueDictionary()

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        #: {loop: its line}, from above downwards.
        self._lines: dict[object, Text] = {}
        #: Draws the lines; None while no loop has one.
        self._live: Live | None = None
        #: Whether the terminal shows the lines at this moment.
        self._is_drawn = False
        #: Whether the program's text ended in a newline; if not, a line would be drawn into it.
        self._is_at_start = True
        #: {"stdout" or "stderr": the stream that replaces it}
        self._passing: dict[str, PassingStream] = {}
        self._handlers: list[logging.StreamHandler[Any]] = []

    @classmethod
    def of(cls, stream: TextIO) -> TerminalScreen:
        """Return the one of this stream, which all loops share."""
        with LOCK:
            return cls._known.setdefault(id(stream), cls(stream))

    def wait(self, seconds: float) -> float:
        return _SECONDS if seconds else _FIRST_SECONDS

    def show(self, loop: object, status: ProgressStatus) -> None:
        with LOCK:
            live = self._begin() if self._live is None else self._live
            self._lines[loop] = _line_of(status, live)
            self._draw(live)

    def close(self, loop: object, status: ProgressStatus) -> None:
        """Leave the loop's line above the others, as a line that the program has printed."""
        with LOCK:
            live = self._live
            if live is None or self._lines.pop(loop, None) is None:
                return
            if not self._is_at_start:
                write(self._stream, "\n")
                self._is_at_start = True
            self._draw(live)
            live.console.print(_line_of(status, live))
            if not self._lines:
                self._end(live)

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

    def _draw(self, live: Live) -> None:
        from rich.console import Group

        if self._is_at_start:
            live.update(Group(*self._lines.values()) if self._lines else "", refresh=True)
            self._is_drawn = True

    def _erase(self) -> None:
        if self._is_drawn and self._live is not None:
            self._live.update("", refresh=True)
            self._is_drawn = False

    def _begin(self) -> Live:
        """Let the program's streams pass through here, and return what draws below their text."""
        # Only programs that show a line pay for importing it.
        from rich.console import Console
        from rich.live import Live

        console = Console(
            file=cast("TextIO", _LosableTerminal(self._stream)),
            force_terminal=True,
            no_color=bool(os.environ.get("NO_COLOR")),  # old versions take an empty one for set
        )
        self._live = live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        # The column of the cursor is unknown: if it is not 0, these spaces move it to the next line.
        write(self._stream, f"{' ' * console.width}\r")
        live.start(refresh=True)
        # A training that is suspended or killed must not leave a terminal without a cursor.
        console.show_cursor()
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
        return live

    def _end(self, live: Live) -> None:
        """Give the program its streams back, where it has not put others there."""
        live.stop()
        self._live = None
        self._is_drawn = False
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


class _LosableTerminal:
    """Passes what rich draws to a terminal, and drops it once that is gone: rich would end the program."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        write(self._stream, text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: `write` has flushed."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _line_of(status: ProgressStatus, live: Live) -> Text:
    from rich.text import Text

    console = live.console
    marks = "#." if console.options.ascii_only else "━─"
    # The console leaves the colour out if the user or the terminal does not allow it.
    line = status.bar_line(console.width, marks=marks, has_colour=True)
    return Text.from_ansi(line, no_wrap=True, overflow="crop")


def _is_same_terminal(stream: Any, other: TextIO) -> bool:
    try:
        if stream is None or not stream.isatty():
            return False
        mine, theirs = os.fstat(stream.fileno()), os.fstat(other.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return os.path.samestat(mine, theirs)


def screen_of(stream: TextIO | None, *, only_on_terminals: bool = False) -> Screen:
    """Return the screen that shows progress to the readers of a stream, standard error."""
    if _is_in_notebook():
        return NotebookLine()
    if stream is None:  # a program without a console
        return NoScreen()
    stream = behind(stream)
    try:
        is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it is closed
        return NoScreen()
    if is_terminal:
        return TerminalScreen.of(stream)
    return NoScreen() if only_on_terminals else LogLines(stream)


def _is_in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else getattr(ipython, "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


__all__ = ["PassingStream", "TerminalScreen", "behind", "screen_of"]
