"""Tests that followed from a draw meet those of its mutants that nobody had noticed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.mutants.clones import ROOT, cloned
from tests.mutants.drawing import changed_source
from tests.mutants.judging import import_libraries, judge
from tests.mutants.rows import left, mutant_of, read, reason, show, write

#: What one of the tests that are named may take.
_SECONDS: Final = 20.0


def judge_again(folder: Path, room: str, name: str, tests: list[str]) -> None:
    """Judge what is left of the newest draw of this name by these tests, as they are in the checkout now.

    Raises SystemExit where there is no such draw, or where the tests do not pass without a change.
    """
    found = sorted(folder.glob(f"{name}-????????????.jsonl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit(f"there is no draw {name} in {folder}")
    kept = found[-1]
    clone = cloned(folder, room, kept.stem.removeprefix(f"{name}-"))
    for file in {test.partition("::")[0] for test in tests}:
        (clone / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, clone / file)
    rows = read(kept)
    import_libraries()
    for row in left(rows):
        mutant = mutant_of(row)
        changed = changed_source(clone, mutant)
        if changed is None or reason(clone, mutant):
            row["verdict"] = "excused"
        elif tests:
            verdict, took = judge(clone, mutant.file, changed, tests, _SECONDS)
            print(f"{verdict:9} {took:5.1f} s {mutant.key} line {mutant.line}", flush=True)
            if verdict == "late":
                raise SystemExit(f"these tests do not pass without a change: {', '.join(tests)}")
            if verdict != "survived":
                row |= {"verdict": verdict, "again": True}
        write(kept, rows)
    show(clone, rows)


__all__ = ["judge_again"]
