"""`LoopProgress`: shows how far a loop has got, at times and not at steps.

    with LoopProgress(1000) as progress:
        progress.begin(0)
        for step in range(1, 1001):
            ...
            progress.advance(step, lambda: {"loss": loss})

A step only reads the clock as long as no progress is due.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from flowengine.train.progress.screens import NoScreen, Screen
from flowengine.train.progress.terminal import screen_of
from flowengine.train.progress.wording import ProgressStatus, numbers_among

#: The rate is that of the last half minute, so it is steady and still follows changes.
_RATE_SECONDS: Final = 30.0


class LoopProgress:
    """Shows how far one loop has got. Leaving the block shows it for the last time, if it was ever shown.

    total    the number of steps, those before the loop's first included; None if it is not known
    quiet    whether to show nothing
    only_on_terminals   whether to show nothing in a file or a pipe
    screen   the screen that shows it; by default the one that suits `sys.stderr`
    clock    seconds
    """

    def __init__(
        self,
        total: int | None = None,
        *,
        quiet: bool = False,
        only_on_terminals: bool = False,
        screen: Screen | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._total = total
        self._screen = NoScreen() if quiet else screen
        self._only_on_terminals = only_on_terminals
        self._clock = clock
        self._due = float("inf")
        self._is_shown = False
        self._began = 0.0
        self._first = self._step = 0
        #: Moments with the steps made by then, about a second apart.
        self._marks: deque[tuple[float, int]] = deque()
        self._read: Callable[[], Mapping[str, Any]] = dict
        #: Stands before the rest.
        self.label = ""

    def begin(self, step: int, total: int | None = None) -> None:
        """Begin to count at the step that the first one follows.

        total   how many steps there will be, if that shows only now
        """
        self._total = self._total if total is None else total
        if self._screen is None:
            self._screen = screen_of(sys.stderr, only_on_terminals=self._only_on_terminals)
        self._began = self._clock()
        self._first = self._step = step
        self._marks.append((self._began, step))
        self._due = self._began + self._screen.wait(0.0)

    def advance(self, step: int, read: Callable[[], Mapping[str, Any]]) -> None:
        """Count a step.

        read   returns {name: value} of the step; called only if there is something to show
        """
        self._step, self._read = step, read
        now = self._clock()
        if now < self._due:
            return
        assert self._screen is not None
        self._is_shown = True
        self._screen.show(self, self._status(now))
        # Counted from now, so that a loop does not wait for a slow terminal again and again.
        self._due = now + self._screen.wait(now - self._began)

    def __enter__(self) -> LoopProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._due = float("inf")
        if self._is_shown and self._screen is not None:
            self._is_shown = False
            self._screen.close(self, self._status(self._clock(), is_complete=error is None))
        self._read = dict

    def say(self, text: str) -> None:
        """Show a text of several lines, unless it is quiet."""
        if self._screen is None:
            self._screen = screen_of(sys.stderr)
        self._screen.say(text)

    def _status(self, now: float, *, is_complete: bool = False) -> ProgressStatus:
        seconds = now - self._began
        rate = self._rate(self._began, self._first, now) if is_complete else self._recent_rate(now)
        numbers = numbers_among(self._read())
        return ProgressStatus(self._step, self._total, rate, seconds, numbers, self.label, is_complete)

    def _recent_rate(self, now: float) -> float | None:
        marks = self._marks
        while len(marks) > 1 and now - marks[1][0] >= _RATE_SECONDS:
            marks.popleft()
        rate = self._rate(*marks[0], now)
        if now - marks[-1][0] >= 1.0:
            marks.append((now, self._step))
        return rate

    def _rate(self, since: float, first: int, now: float) -> float | None:
        return (self._step - first) / (now - since) if now > since and self._step > first else None


__all__ = ["LoopProgress"]
