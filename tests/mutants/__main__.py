"""Break a room at drawn places and see which breaks a test notices.

    make mutants ROOM=transport SEED=1          150 mutants, an hour at most; again: it goes on
    make mutants ROOM=transport ALL=1           all of them

Works in clones of the last commit under .mutants/, never in the checkout. A line for each mutant is kept
beside them; the summary gives the score and the diff of each that nobody noticed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.mutants.covering import Coverage, read
from tests.mutants.drawing import Mutant, changed_source, draw, places
from tests.mutants.judging import import_libraries, judge
from tests.mutants.rooms import ROOMS

ROOT = Path(__file__).resolve().parents[2]
#: Tests of one mutant take no longer than this in all, by what they took without it; the fastest first.
_TESTS_SECONDS = 120.0


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def _cloned(folder: Path, commit: str) -> Path:
    clone = folder / f"clone-{commit[:12]}"
    if not (clone / ".git").is_dir():
        shutil.rmtree(clone, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(clone)], check=True)
        subprocess.run(["git", "checkout", "--quiet", commit], cwd=clone, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--", "."], cwd=clone, check=True)
    return clone


def _covered(folder: Path, clone: Path, room: str, commit: str) -> Coverage:
    target = folder / f"coverage-{room}-{commit[:12]}.json"
    if not target.is_file():
        print(f"which tests run which lines of {room}, once", flush=True)
        command = [sys.executable, "-m", "tests.mutants.covering", room, str(target)]
        subprocess.run(command, cwd=clone, check=True)
    return read(target)


def _chosen(coverage: Coverage, mutant: Mutant) -> tuple[list[str], float]:
    """The tests to run and how long they took."""
    names: list[str] = []
    total = 0.0
    for name in coverage.of(mutant.file, mutant.line):
        total += coverage.seconds.get(name, 0.0)
        if names and total > _TESTS_SECONDS:
            break
        names.append(name)
    return names, min(total, _TESTS_SECONDS)


def _diff(clone: Path, mutant: Mutant) -> str:
    before = (clone / mutant.file).read_text().splitlines()
    after = (changed_source(clone, mutant) or "").splitlines()
    return "\n".join(difflib.unified_diff(before, after, mutant.file, mutant.operator, lineterm="", n=1))


def _summary(clone: Path, rows: list[dict[str, Any]]) -> None:
    judged = [row for row in rows if row["verdict"] not in ("same", "late")]
    left = [row for row in judged if row["verdict"] in ("survived", "uncovered")]
    fields = ("file", "operator", "occurrence", "line", "is_ours")
    for row in left:
        print(f"\n{row['verdict']}, {row['tests']} tests:")
        print(_diff(clone, Mutant(**{name: row[name] for name in fields})))
    killed = len(judged) - len(left)
    share = killed / len(judged) if judged else 0.0
    same = sum(row["verdict"] == "same" for row in rows)
    late = len(rows) - len(judged) - same
    print(f"\n{killed} of {len(judged)} mutants noticed ({share:.1%}); {same} were the same program")
    if late:
        print(f"{late} could not be judged: the machine is too busy; the same command judges them again")


def _check(clone: Path, coverage: Coverage, drawn: list[Mutant]) -> None:
    """What judges must pass without a change; SystemExit where it does not."""
    for mutant in drawn:
        tests, seconds = _chosen(coverage, mutant)
        if tests:
            source = (clone / mutant.file).read_text()
            verdict, _ = judge(clone, mutant.file, source, tests, seconds)
            if verdict != "survived":
                sys.exit(
                    f"the tests of {mutant.file} do not pass without a change: {', '.join(tests[:5])} ..."
                )
            return


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--room", choices=sorted(ROOMS), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--all", action="store_true", help="every mutant of the room")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    commit = _git("rev-parse", "HEAD")
    clone = _cloned(given.folder, commit)
    coverage = _covered(given.folder, clone, given.room, commit)
    drawn = draw(
        [each for file in ROOMS[given.room].files(clone) for each in places(clone, file)],
        given.seed,
        None if given.all else given.count,
    )
    kept = given.folder / f"{given.room}-{'all' if given.all else given.seed}-{commit[:12]}.jsonl"
    end = time.monotonic() + 60 * given.minutes
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
    rows = [row for row in rows if row["verdict"] != "late"]
    done = {row["key"] for row in rows}
    import_libraries()
    _check(clone, coverage, drawn)
    with kept.open("a") as file:
        for mutant in drawn:
            if mutant.key in done:
                continue
            if time.monotonic() > end:
                print(f"stopped after {given.minutes:g} minutes; the same command goes on")
                break
            changed = changed_source(clone, mutant)
            tests, seconds = _chosen(coverage, mutant)
            took = 0.0
            if changed is None:
                verdict = "same"
            elif not tests:
                verdict = "uncovered"
            else:
                verdict, took = judge(clone, mutant.file, changed, tests, seconds)
            row = mutant.as_row() | {
                "key": mutant.key,
                "verdict": verdict,
                "tests": len(tests),
                "seconds": round(took, 1),
            }
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(
                f"{len(rows)}/{len(drawn)} {verdict:9} {took:5.1f} s {mutant.key} line {mutant.line}",
                flush=True,
            )
    _summary(clone, rows)


if __name__ == "__main__":
    main()
