"""How far many steps have got: a bar where a person is watching, and lines where asked. Always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from flowengine.train.progress.loop_progress import LoopProgress
from flowengine.train.progress.wording import numbers_among, shown


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
        # What is piped has lines where --every asks for them alone.
        self._bar = LoopProgress(total, quiet=total < 2, only_on_terminals=True)

    def __enter__(self) -> ProgressReport:
        self._bar.begin(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def advance(self, values: Mapping[str, Any]) -> None:
        self.done += 1
        if self._every and (self.done == 1 or self.done % self._every == 0 or self.done == self._total):
            line = f"step {self.done:>{len(str(self._total))}}/{self._total}  {scalars(values)}"
            print(line, file=sys.stderr, flush=True)
        self._bar.advance(self.done, lambda: _named(values))


def scalars(values: Mapping[str, Any]) -> str:
    """`loss 0.1234  accuracy 0.9`: each numeric value of one element."""
    return "  ".join(f"{name} {shown(value)}" for name, value in numbers_among(_named(values)).items())


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removesuffix(":0"): value for name, value in values.items()}
