"""The figures of a benchmark as a table, with a bar for each point's steps or rows in a second."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from flowengine.cli.bench.points import BenchTimes
from flowengine.cli.failure import printable
from flowengine.cli.running.steps import percentiles

_SHOWN: Final = ("p50", "p90", "p99")
#: {a column's title: its width}, for 80 columns in all with two between them; the last has the bar.
_WIDTHS: Final = {"batch": 6, "tasks": 5, "steps": 7, **{f"{name} ms": 7 for name in _SHOWN}}
_RATE: Final = 10
_BAR: Final = 16
#: Rates from here on are shown without decimals.
_WHOLE: Final = 100


def show(path: str, timings: Sequence[BenchTimes], fetches: Sequence[str], difference: float | None) -> None:
    """Print a table for each engine on standard output."""
    from rich.bar import Bar
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout, highlight=False, markup=False)
    console.print(f"{printable(path)}: {', '.join(map(printable, fetches))}")
    unit = "steps/s" if all(each.point.batch is None for each in timings) else "rows/s"
    fastest = max(map(_rate, timings))
    for engine in dict.fromkeys(each.engine for each in timings):
        console.print(engine)
        table = Table(box=None, header_style="")
        for title, width in (_WIDTHS | {unit: _RATE}).items():
            table.add_column(title, justify="right", width=width, no_wrap=True)
        table.add_column("", width=_BAR)
        for each in timings:
            if each.engine == engine:
                table.add_row(*_cells(each), Bar(fastest, 0, _rate(each)))
        console.print(table)
    if difference is not None:
        console.print(f"largest difference between the values of both: {difference:.3g}")


def _cells(each: BenchTimes) -> list[str]:
    found, rate = percentiles(each.latencies_ms), _rate(each)
    return [
        *(str(each.point.batch or "as fed"), str(each.point.concurrency), f"{len(each.latencies_ms):,}"),
        *(f"{found[name]:.3g}" for name in _SHOWN),
        f"{rate:,.0f}" if rate >= _WHOLE else f"{rate:.3g}",
    ]


def _rate(each: BenchTimes) -> float:
    return each.steps_per_second * (each.point.batch or 1)


__all__ = ["show"]
