"""Line charts as SVG, for the documentation: axes, ticks, lines with markers, a legend. Nothing else.

svg = chart([Line("scalar", [(1, 3.1), (10, 3.5)])], title="...", x_label="workers", y_label="ms", log=True)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_COLOURS: Final = ("#1b6ca8", "#c8553d", "#4a7c59", "#8f5aa8", "#7a6c5d", "#2a9d8f")
_WIDTH: Final = 680
_HEIGHT: Final = 400
#: Left, top, right, bottom.
_MARGINS: Final = (70, 40, 200, 50)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """Points (x, y) under a name; dashed for what others have measured."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return [10.0**power for power in range(first, last + 1)]
    step = 10.0 ** math.floor(math.log10((high - low) or 1))
    while (high - low) / step < 4:
        step /= 2
    return [step * k for k in range(math.floor(low / step), math.ceil(high / step) + 1)]


class _ChartAxis:
    """An axis of a chart, which maps a value to its coordinate."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, log: bool, zero: bool) -> None:
        low, high = min(values), max(values)
        self.ticks = _ticks(0 if zero and not log else low, high, log)
        self._log = log
        self._start = start
        self._scale = (end - start) / (self._at(self.ticks[-1]) - self._at(self.ticks[0]))

    def _at(self, value: float) -> float:
        return math.log10(value) if self._log else value

    def __call__(self, value: float) -> float:
        return self._start + (self._at(value) - self._at(self.ticks[0])) * self._scale


def chart(
    lines: Sequence[ChartLine],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    from_zero: bool = True,
) -> str:
    """The text of an SVG file. Logarithmic axes need positive values."""
    left, top, right, bottom = _MARGINS
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x = _ChartAxis(xs, left, _WIDTH - right, log=log_x, zero=from_zero)
    y = _ChartAxis(ys, _HEIGHT - bottom, top, log=log_y, zero=from_zero)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(left, 22, title, size=14),
        _text((left + _WIDTH - right) / 2, _HEIGHT - 12, x_label, anchor="middle"),
        f'<g transform="rotate(-90 16 {_HEIGHT / 2:g})">'
        + _text(16, _HEIGHT / 2, y_label, anchor="middle")
        + "</g>",
    ]
    for tick in x.ticks:
        parts.append(_segment(x(tick), top, x(tick), _HEIGHT - bottom))
        parts.append(_text(x(tick), _HEIGHT - bottom + 18, f"{tick:g}", anchor="middle"))
    for tick in y.ticks:
        parts.append(_segment(left, y(tick), _WIDTH - right, y(tick)))
        parts.append(_text(left - 8, y(tick) + 4, f"{tick:g}", anchor="end"))
    for number, line in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line.points)
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{colour}"/>' for a, b in line.points]
        height = top + 14 + 20 * number
        parts.append(_segment(_WIDTH - right + 12, height - 4, _WIDTH - right + 36, height - 4, colour, dash))
        parts.append(_text(_WIDTH - right + 42, height, line.name))
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _segment(x1: float, y1: float, x2: float, y2: float, colour: str = "#dddddd", dash: str = "") -> str:
    width = 2 if colour != "#dddddd" else 1
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"{dash}/>'
    )


__all__ = ["ChartLine", "chart"]
