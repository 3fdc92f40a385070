"""Mutants that no test can notice, each with its reason: they count neither as noticed nor as overlooked.

`reasons.txt` has them: a file, below it its changed lines, below each why. What stands there is the same
program in every value, or changes nothing but how long something takes or how much is read at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final


def parsed(text: str) -> dict[str, dict[str, str]]:
    """{file: {the line with the change, spaces made one: why}}; ValueError for a line without a reason."""
    found: dict[str, dict[str, str]] = {}
    file = changed = ""
    for line in text.splitlines():
        words = " ".join(line.split())
        if not line.startswith(" "):
            file, changed = words, ""
        elif not line.startswith("        "):
            if changed:
                raise ValueError(f"{file}: no reason for {changed!r}")
            changed = words
        else:
            found.setdefault(file, {})[changed] = words
            changed = ""
    if changed:
        raise ValueError(f"{file}: no reason for {changed!r}")
    return found


REASONS: Final = parsed(Path(__file__).with_name("reasons.txt").read_text())
