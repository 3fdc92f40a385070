"""Draw README's picture of a terminal, docs/images/terminal.svg, from the transcript beside it.

    python -m tests.docs.terminal

A test plays the transcript, and another compares the words of the picture with it. The picture asks no host
for a font: it is drawn in what the reader's system has.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

from tests.docs.transcripts import ROOT, exchanges

TRANSCRIPT: Final = ROOT / "docs" / "images" / "terminal.txt"
PICTURE: Final = TRANSCRIPT.with_suffix(".svg")
_COLUMNS: Final = 96

#: What rich fills in, without the web font of its own format.
_FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: system-ui, sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def lines() -> list[str]:
    """The transcript as a terminal shows it."""
    shown = []
    for exchange in exchanges(TRANSCRIPT.read_text()):
        shown += [f"$ {exchange.command}", *exchange.printed]
    return "\n".join(shown).split("\n")


def drawn() -> str:
    """The picture as SVG."""
    console = Console(
        record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in lines():
        if line.startswith("$ "):
            console.print(Text("$ ", style="bold green").append(line[2:], style="bold not green"))
        else:
            console.print(Text(line), highlight=False)
    return console.export_svg(title="flowengine", code_format=_FORMAT, unique_id="terminal")


def words(picture: str) -> list[str]:
    """The lines of text in a picture, without their spaces."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        if re.search(r"-line-\d+", element.get("clip-path", "")):
            rows.setdefault(float(element.get("y", 0)), []).append(
                (float(element.get("x", 0)), element.text or "")
            )
    texts = ("".join(text for _, text in sorted(row)) for _, row in sorted(rows.items()))
    return [each for each in ("".join(text.split()) for text in texts) if each]


def main() -> None:
    Path(PICTURE).write_text(drawn())


if __name__ == "__main__":
    main()
