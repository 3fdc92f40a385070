"""Tables in Markdown, and what the parts of a run share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any


@dataclass
class ResultTable:
    """The findings of a part. `failures` are sentences; none means that all requirements are met."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The table with its title, failures beneath."""
        lines = [
            f"## {self.title}",
            "",
            f"| {' | '.join(self.headings)} |",
            "|" + "---|" * len(self.headings),
        ]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        if self.failures:
            lines += ["", *(f"- **not kept**: {failure}" for failure in self.failures)]
        return "\n".join(lines) + "\n"


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """The median time of a piece of work, once it has been done."""
    work()
    taken = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        taken.append(perf_counter() - start)
    return median(taken)
