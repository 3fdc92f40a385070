"""Draw a picture of a digit in the terminal, and beside it the ten scores that a step gave it."""

import json
import os
import sys
from itertools import zip_longest
from pathlib import Path

import numpy as np
from PIL import Image

#: From an empty to a full pixel; two characters make one about square.
SHADES = " ░▒▓█"
#: The same where the terminal's encoding has no blocks.
PLAIN_SHADES = " .:+#"


def shades() -> str:
    """Return the shades that standard output can write."""
    try:
        SHADES.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return PLAIN_SHADES
    return SHADES


def drawn(path: str) -> list[str]:
    """Return the rows of the picture, two characters a pixel."""
    pixels = np.asarray(Image.open(path).convert("L"))
    levels = shades()
    return ["".join(levels[int(value) * (len(levels) - 1) // 240] * 2 for value in row) for row in pixels]


def bars(scores: list[float]) -> list[str]:
    """Return a line for each digit; the likeliest is marked."""
    best = scores.index(max(scores))
    lines = [
        f"{digit}  {score:6.1%}  {shades()[-1] * round(score * 30)}" for digit, score in enumerate(scores)
    ]
    lines[best] += "  <-"
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        lines[best] = f"\x1b[1m{lines[best]}\x1b[0m"
    return lines


if __name__ == "__main__":
    picture, result = sys.argv[1:]
    (scores,) = json.loads(Path(result).read_text())["values"]["scores:0"]["value"]
    rows = drawn(picture)
    for left, right in zip_longest(rows, bars(scores), fillvalue=""):
        print(f"    {left.ljust(len(rows[0]))}        {right}".rstrip())
