"""The one line that says how far many steps have got.

step 1200 of 10000, 431 steps/s, 20 s left, loss 0.1234
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

_BAR_COLUMNS: Final = 20
_BAR_COLUMNS_MIN: Final = 8
#: A narrower terminal has no place for a bar beside the numbers.
_COLUMNS_WITH_BAR: Final = 60


@dataclass(frozen=True, slots=True)
class ProgressStatus:
    """How far many steps have got.

    step, total   the steps made, and the number of all steps; None if that is not known before the end
    rate          recent steps a second; None before it is known
    seconds       since the first step began
    numbers       {name: value} of the numbers that the last step returned
    label         a text before the rest, such as "epoch 2/10"
    is_complete   whether there will be no more steps
    """

    step: int
    total: int | None = None
    rate: float | None = None
    seconds: float = 0.0
    numbers: Mapping[str, float | int] = field(default_factory=dict)
    label: str = ""
    is_complete: bool = False

    def parts(self) -> list[str]:
        """Return rate, time and numbers as texts."""
        found = [] if self.rate is None else [f"{speed(self.rate)} steps/s"]
        if self.is_complete:
            found.append(f"took {duration(self.seconds)}")
        elif self.total is not None and self.rate:
            found.append(f"{duration(max(self.total - self.step, 0) / self.rate)} left")
        return found + [f"{_printable(name)} {shown(value)}" for name, value in self.numbers.items()]

    def line(self) -> str:
        """Return the line for a log."""
        step = f"step {self.step}" if self.total is None else f"step {self.step} of {self.total}"
        return ", ".join([*filter(None, [self.label]), step, *self.parts()])

    def bar_line(self, columns: int, *, marks: str = "━─", has_colour: bool = False) -> str:
        """Return the line for a terminal: with a bar if the end is known, and no wider than the terminal.

        marks   two characters: for the part of the bar that is done, and for the rest
        """
        step = f"step {self.step}" if self.total is None else f"step {self.step}/{self.total}"
        head = " ".join(filter(None, [self.label, step]))
        room = columns - 1  # some terminals wrap a line that has a character in the last column
        has_bar = bool(self.total) and columns >= _COLUMNS_WITH_BAR
        # The numbers say more than a long bar.
        rest, free = "", room - _width(head) - (_BAR_COLUMNS_MIN + 1 if has_bar else 0)
        for part in self.parts():
            if _width(rest) + 2 + _width(part) > free:
                break
            rest += f"  {part}"
        if free < 0 or not has_bar:
            found = head + rest
            while _width(found) > room:
                found = found[:-1]
            return found
        assert self.total is not None
        length = min(_BAR_COLUMNS, _BAR_COLUMNS_MIN + free - _width(rest))
        done = round(length * min(self.step / self.total, 1.0))
        bar = f"{marks[0] * done}{marks[1] * (length - done)}"
        return f"{head} \x1b[36m{bar}\x1b[0m{rest}" if has_colour else f"{head} {bar}{rest}"


def shown(value: float | int) -> str:
    """Return a number with as many digits as a reader compares."""
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def speed(rate: float) -> str:
    """Return steps a second: `431`, `4.31`, `0.0431`, never `1e+05`."""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def duration(seconds: float) -> str:
    """Return `12 s`, `3:25`, `1:02:03`, or `2 d 1:02:03`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02}"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days} d " if days else "") + f"{hours}:{minutes:02}:{rest:02}"


def numbers_among(values: Mapping[str, Any]) -> dict[str, float | int]:
    """Return the values that are one number: scalars, and arrays with one element."""
    found: dict[str, float | int] = {}
    for name, value in values.items():
        if isinstance(value, bytes | str | None):
            continue
        try:
            array = np.asarray(value)
        except ValueError:
            continue  # rows of different lengths
        if array.size == 1 and array.dtype.kind in "biufV":
            item = array.reshape(())
            try:
                found[name] = int(item) if array.dtype.kind in "biu" else float(item)
            except (TypeError, ValueError):
                continue  # a structured type
    return found


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _width(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


__all__ = ["ProgressStatus", "duration", "numbers_among", "shown", "speed"]
