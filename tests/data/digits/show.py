"""Draw a picture of a digit in the terminal, and beside it the ten scores that a step gave it."""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: From an empty to a full pixel; two characters make one about square.
SHADES = " ░▒▓█"


def drawn(path: str) -> Text:
    """The picture, two characters a pixel."""
    pixels = np.asarray(Image.open(path).convert("L"))
    rows = ["".join(SHADES[int(value) * (len(SHADES) - 1) // 240] * 2 for value in row) for row in pixels]
    return Text("\n".join(rows))


def bars(scores: list[float]) -> Text:
    """One line a digit; the likeliest is marked."""
    best = scores.index(max(scores))
    lines = Text()
    for digit, score in enumerate(scores):
        line = f"{digit}  {score:6.1%}  {'█' * round(score * 30)}"
        lines.append(line + ("  <-" if digit == best else "") + "\n", style="bold" if digit == best else "")
    return lines


if __name__ == "__main__":
    picture, result = sys.argv[1:]
    (scores,) = json.loads(Path(result).read_text())["values"]["scores:0"]["value"]
    table = Table(show_header=False, box=None, padding=(0, 4))
    table.add_row(drawn(picture), bars(scores))
    Console().print(table)
