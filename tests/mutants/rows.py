"""Fates of the mutants of a draw: a line of JSON for each, kept in a file, and the score of all."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.mutants.drawing import Mutant, changed_source
from tests.mutants.reasons import REASONS

Row: TypeAlias = dict[str, Any]

_FIELDS: Final = ("file", "operator", "occurrence", "line", "is_ours")
_LEFT: Final = ("survived", "uncovered")


def read(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def write(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def mutant_of(row: Row) -> Mutant:
    return Mutant(**{name: row[name] for name in _FIELDS})


def left(rows: list[Row]) -> list[Row]:
    """Those that no test noticed."""
    return [row for row in rows if row["verdict"] in _LEFT]


def reason(clone: Path, mutant: Mutant) -> str:
    """Why no test can notice this one, as `reasons.py` has it; empty where it says nothing."""
    known = REASONS.get(mutant.file)
    if known is None:
        return ""
    before = (clone / mutant.file).read_text().splitlines()
    after = (changed_source(clone, mutant) or "").splitlines()
    new = [
        line[1:].strip()
        for line in difflib.unified_diff(before, after, lineterm="", n=0)
        if line[0] == "+" and line[:3] != "+++"
    ]
    return known.get(" ".join(" ".join(new).split()), "")


def show(clone: Path, rows: list[Row]) -> None:
    """Print the diff of each that nobody noticed, and the score."""
    judged = [row for row in rows if row["verdict"] not in ("same", "late", "excused")]
    for row in left(rows):
        mutant = mutant_of(row)
        before = (clone / mutant.file).read_text().splitlines()
        after = (changed_source(clone, mutant) or "").splitlines()
        print(f"\n{row['verdict']}, {row['tests']} tests:")
        print("\n".join(difflib.unified_diff(before, after, mutant.file, mutant.operator, lineterm="", n=1)))

    def count(verdict: str) -> int:
        return sum(row["verdict"] == verdict for row in rows)

    noticed = len(judged) - len(left(rows))
    share = noticed / len(judged) if judged else 0.0
    later = sum("again" in row for row in rows)
    print(
        f"\n{noticed} of {len(judged)} mutants noticed ({share:.1%}), {later} of them by tests that followed"
    )
    print(f"{count('same')} were the same program, {count('excused')} have a reason in reasons.py")
    if count("late"):
        print(f"{count('late')} could not be judged on so busy a machine: the same command judges them again")


__all__ = ["Row", "left", "mutant_of", "read", "reason", "show", "write"]
