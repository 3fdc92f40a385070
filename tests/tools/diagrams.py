"""Diagrams of boxes and arrows as SVG, drawn from the text files docs/images/*.diagram.

    python -m tests.tools.diagrams      # JSON: {"architecture.svg": text, ...}, for `make generate`

A file has one statement a line. A row places boxes from left to right, and rows follow each other downwards;
` / ` in a label begins a new line.

    row: enter=Enter / frame "loop" | x=x
    edge: x -> enter: a label              --> dashes it, ~> leads it around the left of all boxes
    group: device CPU:0: enter x           a frame around boxes, with a title
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "images"
_CHARACTER: Final = 7.2  # pixels, at the font size below
_FONT: Final = 13
_LINE: Final = 17
_PADDING: Final = 14
_GAP: Final = 48
_ROW_GAP: Final = 46
_MARGIN: Final = 56
_EDGE: Final = re.compile(r"(\w+) (->|-->|~>) (\w+)(?:: (.*))?")


@dataclass
class Box:
    """A box with its lines of text and its place.

    x, y            the centre, in pixels
    width, height   in pixels
    """

    lines: list[str]
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(len(line) for line in self.lines) * _CHARACTER + 2 * _PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PADDING - 6

    def border(self, x: float, y: float) -> tuple[float, float]:
        """Return the point where the line from the centre to (x, y) leaves the box."""
        across, down = x - self.x, y - self.y
        scale = min(
            (self.width / 2) / abs(across) if across else 1e9, (self.height / 2) / abs(down) if down else 1e9
        )
        return self.x + across * scale, self.y + down * scale


@dataclass
class Diagram:
    """A parsed text: boxes by name in rows, edges (source, arrow, target, label), groups (title, names)."""

    rows: list[list[str]] = field(default_factory=list)
    boxes: dict[str, Box] = field(default_factory=dict)
    edges: list[tuple[str, str, str, str]] = field(default_factory=list)
    groups: list[tuple[str, list[str]]] = field(default_factory=list)


def parse(text: str) -> Diagram:
    """Return the diagram that a text describes; ValueError names a line that is none of the statements."""
    diagram = Diagram()
    for number, line in enumerate(text.splitlines(), 1):
        kind, _, rest = line.partition(": ")
        edge = _EDGE.fullmatch(rest)
        if not line.strip() or line.startswith("#"):
            continue
        if kind == "row":
            cells = [cell.strip().partition("=") for cell in rest.split(" | ")]
            diagram.boxes |= {name: Box(label.split(" / ")) for name, _, label in cells}
            diagram.rows.append([name for name, _, _ in cells])
        elif kind == "edge" and edge and {edge[1], edge[3]} <= diagram.boxes.keys():
            diagram.edges.append((edge[1], edge[2], edge[3], edge[4] or ""))
        elif kind == "group" and ": " in rest:
            title, _, names = rest.rpartition(": ")
            diagram.groups.append((title, names.split()))
        else:
            raise ValueError(f"line {number} is no row, edge or group of known boxes: {line}")
    return diagram


def place(diagram: Diagram) -> tuple[float, float]:
    """Give each box its place, and return the width and height of the picture."""
    beside = {pair for row in diagram.rows for pair in pairwise(row)}
    labels = [each[3] for each in diagram.edges if {(each[0], each[2]), (each[2], each[0])} & beside]
    gap = max([_GAP, *(len(label) * _CHARACTER + 36 for label in labels if label)])
    widths = [sum(diagram.boxes[name].width for name in row) + gap * (len(row) - 1) for row in diagram.rows]
    width = max(widths) + 2 * _MARGIN
    y = _MARGIN / 2
    for row, taken in zip(diagram.rows, widths, strict=True):
        x = (width - taken) / 2
        height = max(diagram.boxes[name].height for name in row)
        for name in row:
            box = diagram.boxes[name]
            box.x, box.y = x + box.width / 2, y + height / 2
            x += box.width + gap
        y += height + _ROW_GAP
    return width, y - _ROW_GAP + _MARGIN / 2


def draw(text: str) -> str:
    """Return the SVG of a diagram's text."""
    diagram = parse(text)
    width, height = place(diagram)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="{_FONT}">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#444"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="white"/>',
    ]
    parts += [_group(title, [diagram.boxes[name] for name in names]) for title, names in diagram.groups]
    parts += [_edge(diagram, *edge) for edge in diagram.edges]
    parts += [_box(box) for box in diagram.boxes.values()]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(box: Box) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    drawn = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5" '
        'fill="#eef3fb" stroke="#3f51b5"/>'
    )
    for index, line in enumerate(box.lines):
        y = box.y + (index - (len(box.lines) - 1) / 2) * _LINE
        weight = ' font-weight="bold"' if index == 0 else ' fill="#444"'
        drawn += _text(box.x, y, line, weight)
    return drawn


def _text(x: float, y: float, line: str, more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" dominant-baseline="central"{more}>'
        f"{escape(line)}</text>"
    )


def _edge(diagram: Diagram, source: str, arrow: str, target: str, label: str) -> str:
    one, other = diagram.boxes[source], diagram.boxes[target]
    dashes = ' stroke-dasharray="5 4"' if arrow == "-->" else ""
    if arrow == "~>":
        left = min(box.x - box.width / 2 for box in diagram.boxes.values()) - _MARGIN / 2
        x1, x2 = one.x - one.width / 2, other.x - other.width / 2
        path = f"M{x1:.1f} {one.y:.1f}H{left:.1f}V{other.y:.1f}H{x2:.1f}"
        middle = (left, (one.y + other.y) / 2)
    else:
        (x1, y1), (x2, y2) = one.border(other.x, other.y), other.border(one.x, one.y)
        path = f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
        middle = ((x1 + x2) / 2, (y1 + y2) / 2)
    drawn = f'<path d="{path}" fill="none" stroke="#444"{dashes} marker-end="url(#head)"/>'
    halo = ' fill="#222" stroke="white" stroke-width="4" paint-order="stroke" font-size="12"'
    return drawn + (_text(*middle, label, halo) if label else "")


def _group(title: str, boxes: list[Box]) -> str:
    left = min(box.x - box.width / 2 for box in boxes) - 14
    right = max(box.x + box.width / 2 for box in boxes) + 14
    top = min(box.y - box.height / 2 for box in boxes) - 20
    bottom = max(box.y + box.height / 2 for box in boxes) + 12
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" rx="8" '
        'fill="#fafafa" stroke="#999" stroke-dasharray="3 3"/>'
        f'<text x="{left + 8:.1f}" y="{top + 12:.1f}" font-size="11" fill="#555">{escape(title)}</text>'
    )


def main() -> None:
    texts = sorted(FOLDER.glob("*.diagram"))
    print(json.dumps({f"{path.stem}.svg": draw(path.read_text()) for path in texts}))


if __name__ == "__main__":
    main()
