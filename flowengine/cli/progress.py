"""How far many steps have got: a bar where a person is watching, and lines where asked. Always on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import numpy as np

#: Steps that end sooner than this show nothing, and do not pay for importing the bar either.
_QUIET_SECONDS: Final = 0.3
_REFRESH_SECONDS: Final = 0.1


class ProgressReport:
    """Counts steps; a context manager. `advance` after each step, with what it fetched.

    total    how many steps there will be
    every    say the scalars on a line of their own every so many steps; 0 for never
    """

    def __init__(self, total: int, *, every: int = 0) -> None:
        self._total = total
        self._every = every
        #: How many steps have been made; may be set by who goes on from, or back to, some number.
        self.done = 0
        self._started = self._drawn = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None
        self._watched = total > 1 and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> ProgressReport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.refresh()
            self._bar.stop()

    def advance(self, values: Mapping[str, Any]) -> None:
        self.done += 1
        if self._every and (self.done == 1 or self.done % self._every == 0 or self.done == self._total):
            self._say(f"step {self.done:>{len(str(self._total))}}/{self._total}  {scalars(values)}")
        if self._watched:
            now = time.perf_counter()
            last = self.done == self._total
            if now - self._drawn > _REFRESH_SECONDS or (last and self._bar is not None):
                self._draw(now, values)

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, highlight=False, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _draw(self, now: float, values: Mapping[str, Any]) -> None:
        if self._bar is None:
            if now - self._started < _QUIET_SECONDS:
                return
            self._bar = _make_bar()
            self._task = self._bar.add_task("steps", total=self._total, scalars="")
            self._bar.start()
        self._drawn = now
        self._bar.update(self._task, completed=self.done, scalars=scalars(values), refresh=True)


def _make_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("steps"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[scalars]}", markup=False),
        console=Console(stderr=True),
        auto_refresh=False,
    )


def scalars(values: Mapping[str, Any]) -> str:
    """`loss 0.1234  accuracy 0.9`: each numeric value of one element."""
    shown = []
    for name, value in values.items():
        array = np.asarray(value) if not isinstance(value, bytes | None) else None
        if array is not None and array.size == 1 and array.dtype.kind in "biuf":
            item = array.reshape(())[()]
            text = f"{item:.4g}" if array.dtype.kind == "f" else str(item)
            shown.append(f"{name.removesuffix(':0')} {text}")
    return "  ".join(shown)
