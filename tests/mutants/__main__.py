"""Break a room at drawn places and see which breaks a test notices.

    make mutants ROOM=transport SEED=1          150 mutants, an hour at most; again: it goes on
    make mutants ROOM=transport ALL=1           all of them
    make mutants ROOM=transport SEED=1 ARGS='--again tests/transport/test_new.py'
                                                what nobody noticed meets tests that were written since

Works in clones of the last commit under .mutants/, never in the checkout. A line for each mutant is kept
beside them; the summary gives the score and the diff of each that nobody noticed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from tests.mutants.again import judge_again
from tests.mutants.clones import ROOT, cloned, environment, git
from tests.mutants.covering import Coverage, kept, read
from tests.mutants.drawing import Mutant, changed_source, draw, places
from tests.mutants.judging import import_libraries, judge
from tests.mutants.rooms import ROOMS
from tests.mutants.rows import read as read_rows
from tests.mutants.rows import reason, show


def _covered(folder: Path, clone: Path, room: str, commit: str) -> Coverage:
    target = folder / f"coverage-{room}-{commit[:12]}.json"
    if not target.is_file():
        print(f"which tests run which lines of {room}, once", flush=True)
        command = [sys.executable, "-m", "tests.mutants.covering", room, str(target)]
        subprocess.run(command, cwd=clone, env=environment(clone), check=True)
    return read(target)


def _chosen(coverage: Coverage, mutant: Mutant) -> tuple[list[str], float]:
    """The tests to run, and how long the longest of them took."""
    names = kept(coverage.of(mutant.file, mutant.line), coverage.seconds)
    return names, max((coverage.seconds.get(name, 0.0) for name in names), default=0.0)


def _check(clone: Path, coverage: Coverage, drawn: list[Mutant]) -> None:
    """Check that a mutant's tests pass without a change; raise SystemExit if they do not."""
    for mutant in drawn:
        tests, longest = _chosen(coverage, mutant)
        if tests:
            source = (clone / mutant.file).read_text()
            verdict, _ = judge(clone, mutant.file, source, tests, longest)
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
    parser.add_argument(
        "--again", nargs="*", metavar="TEST", help="files of tests that followed from the newest draw"
    )
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    name = f"{given.room}-{'all' if given.all else given.seed}"
    if given.again is not None:
        judge_again(given.folder, given.room, name, given.again)
        return
    commit = git("rev-parse", "HEAD")
    clone = cloned(given.folder, given.room, commit)
    coverage = _covered(given.folder, clone, given.room, commit)
    drawn = draw(
        [each for file in ROOMS[given.room].files(clone) for each in places(clone, file)],
        given.seed,
        None if given.all else given.count,
    )
    written = given.folder / f"{name}-{commit[:12]}.jsonl"
    end = time.monotonic() + 60 * given.minutes
    rows = [row for row in read_rows(written) if row["verdict"] != "late"]
    done = {row["key"] for row in rows}
    import_libraries()
    _check(clone, coverage, drawn)
    with written.open("a") as file:
        for mutant in drawn:
            if mutant.key in done:
                continue
            if time.monotonic() > end:
                print(f"stopped after {given.minutes:g} minutes; the same command goes on")
                break
            changed = changed_source(clone, mutant)
            tests, longest = _chosen(coverage, mutant)
            took = 0.0
            if changed is None:
                verdict = "same"
            elif reason(clone, mutant):
                verdict = "excused"
            elif not tests:
                verdict = "uncovered"
            else:
                verdict, took = judge(clone, mutant.file, changed, tests, longest)
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
    show(clone, rows)


if __name__ == "__main__":
    main()
