"""Ratios that the rounds of a comparison give, and the verdict whether they keep the rule for a change.

A round has seconds of OLD, of NEW and of OLD again, the control, each the median of its turns. A figure is
the median over the rounds of NEW's seconds by OLD's in the same round, and the control's figure the same of
OLD by itself: what it is away from 1 is the machine's doing.

    the geometric mean of all figures is at most 1.02
    no figure is over 1.05, or over 1 + twice the control's own deviation where that is more
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

OLD, NEW, CONTROL = "old", "new", "control"
SIDES: Final = (OLD, NEW, CONTROL)
CLOCKS: Final = ("wall", "processor")

MEAN_LIMIT: Final = 1.02
LIMIT: Final = 1.05

#: {side: {clock: seconds}}
Round = Mapping[str, Mapping[str, float]]


def seconds_of_turns(turns: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return the seconds of a side in a round: for each clock, the median of its turns."""
    columns = zip(*turns, strict=True)
    return {clock: median(column) for clock, column in zip(CLOCKS, columns, strict=True)}


def ratio(rounds: Sequence[Round], side: str, clock: str) -> float:
    """The median over rounds of a side's seconds to OLD's."""
    return median(each[side][clock] / each[OLD][clock] for each in rounds)


def seconds(rounds: Sequence[Round], side: str, clock: str) -> float:
    return median(each[side][clock] for each in rounds)


@dataclass(frozen=True)
class Verdict:
    """A figure beside its control, and the most that it may be.

    aside  why the figure is not judged; empty where it is
    """

    name: str
    figure: float
    control: float
    other_figure: float
    other_control: float
    old_seconds: float
    new_seconds: float
    rounds: int
    aside: str = ""

    @property
    def bound(self) -> float:
        return max(LIMIT, 1 + 2 * abs(self.control - 1))

    @property
    def kept(self) -> bool:
        return self.figure <= self.bound


def verdict(name: str, rounds: Sequence[Round], clock: str, aside: str = "") -> Verdict:
    """A figure judged by one clock; the other's ratios stand beside it."""
    other = CLOCKS[1 - CLOCKS.index(clock)]
    return Verdict(
        name,
        ratio(rounds, NEW, clock),
        ratio(rounds, CONTROL, clock),
        ratio(rounds, NEW, other),
        ratio(rounds, CONTROL, other),
        seconds(rounds, OLD, clock),
        seconds(rounds, NEW, clock),
        len(rounds),
        aside,
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(each) for each in ratios) / len(ratios))


@dataclass(frozen=True)
class Summary:
    """All figures that are judged, together."""

    mean: float
    control_mean: float
    over: tuple[str, ...]

    @property
    def kept(self) -> bool:
        return self.mean <= MEAN_LIMIT and not self.over


def summary(verdicts: Sequence[Verdict]) -> Summary | None:
    judged = [each for each in verdicts if not each.aside]
    if not judged:
        return None
    return Summary(
        geometric_mean([each.figure for each in judged]),
        geometric_mean([each.control for each in judged]),
        tuple(each.name for each in judged if not each.kept),
    )


def in_words(value: float) -> str:
    if value < 1e-3:
        return f"{value * 1e6:.1f} us"
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def _cells(each: Verdict) -> list[str]:
    return [
        each.name,
        in_words(each.old_seconds),
        in_words(each.new_seconds),
        f"{each.figure:.3f}",
        f"{each.control:.3f}",
        f"{each.other_figure:.3f}",
        f"{each.other_control:.3f}",
        "" if each.aside else f"{each.bound:.2f}",
        f"aside: {each.aside}" if each.aside else "yes" if each.kept else "NO",
    ]


def heads(clock: str) -> list[str]:
    other = CLOCKS[1 - CLOCKS.index(clock)]
    return ["work", "old", "new", clock, "control", other, "control", "bound", "kept"]


def line(cells: Sequence[str]) -> str:
    """One row of the table that is printed."""
    return f"{cells[0]:<46}" + "".join(f"{cell:>11}" for cell in cells[1:-1]) + "  " + cells[-1]


def text(each: Verdict) -> str:
    return line(_cells(each))


def told(whole: Summary) -> str:
    """The last line."""
    over = f"Over their bound: {'; '.join(whole.over)}. " if whole.over else ""
    mean = f"Geometric mean {whole.mean:.3f} (at most {MEAN_LIMIT:.2f}; control {whole.control_mean:.3f})"
    return f"{mean}. {over}The rule is {'kept' if whole.kept else 'not kept'}."


def markdown(verdicts: Sequence[Verdict], clock: str) -> str:
    """The table and the last line."""
    rows = ["| " + " | ".join(heads(clock)) + " |", "|---|" + "---:|" * (len(heads(clock)) - 2) + "---|"]
    rows += ["| " + " | ".join(_cells(each)) + " |" for each in verdicts]
    whole = summary(verdicts)
    return "\n".join(rows) + "\n" + ("" if whole is None else f"\n{told(whole)}\n")
