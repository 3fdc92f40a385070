"""The least that passes: `floor.json`, which only rises, and what it is compared with.

    python tests/conformance/floor.py          play everything, then raise the floor to what passes now

The cases lie outside of this repository, in the folder that `FLOWENGINE_SHARED` names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.tools.recorded import find_cases
from tests.tools.replay import Result
from tests.tools.workers import replay_all, summary

HERE = Path(__file__).resolve().parent
FILE = HERE / "floor.json"


def read_floor() -> Any:
    """{"cases": {suite or scope: number}, "graphs": [ids]}"""
    return json.loads(FILE.read_text(encoding="utf-8"))


def read_exceptions() -> dict[str, str]:
    """{case id: why it does not pass} of the cases within the first lists of ops."""
    data: dict[str, str] = json.loads((HERE / "exceptions.json").read_text(encoding="utf-8"))
    return data


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def play_cases(shared: Path) -> list[Result]:
    """Every recorded case. Most are tiny; one that takes long is tried again by itself before it counts as
    hanging: some fill gigabytes with random numbers."""
    results = replay_all(find_cases(shared / "conformance" / "open"), jobs=processors())
    again = {r.address: r for r in results if hangs(r)}
    if again:
        again = {r.address: r for r in replay_all(again, timeout_seconds=120)}
    return [again.get(r.address, r) for r in results]


def hangs(result: Result) -> bool:
    """Whether a case did not come to an end, or ended its process."""
    return result.status != "pass" and any(word in result.why for word in ("raised Stall", "stalled", "died"))


def play_graphs(shared: Path) -> list[Result]:
    """Every whole graph."""
    return replay_all(find_cases(shared / "zoo" / "open"), jobs=processors(), timeout_seconds=60)


def in_scope(results: Sequence[Result], scope: Path) -> list[Result]:
    """The cases whose ops are all in a list of op types; concurrent cases are counted by themselves."""
    ops = set(scope.read_text(encoding="utf-8").split())
    return [r for r in results if r.suite != "concurrent" and ops >= set(r.ops)]


def scopes(shared: Path) -> list[Path]:
    return sorted((shared / "conformance").glob("scope_*.txt"))


def count_passes(results: Sequence[Result], shared: Path) -> dict[str, int]:
    """How many cases pass in each suite, and within each list of op types."""
    groups = {suite: [r for r in results if r.suite == suite] for suite in sorted({r.suite for r in results})}
    groups |= {scope.stem: in_scope(results, scope) for scope in scopes(shared)}
    return {name: sum(r.status == "pass" for r in group) for name, group in groups.items()}


def below(counts: Mapping[str, int], floor: Mapping[str, int]) -> dict[str, str]:
    """Return the counts that have fallen below the floor, as {name: "now, floor"}."""
    return {
        name: f"{counts.get(name, 0)} pass, the floor is {least}"
        for name, least in floor.items()
        if counts.get(name, 0) < least
    }


def main() -> int:
    """Play everything and raise the floor; refuse where something has fallen."""
    shared = Path(os.environ.get("FLOWENGINE_SHARED", HERE.parents[2] / "shared"))
    cases, graphs = play_cases(shared), play_graphs(shared)
    if not cases or not graphs:
        print(f"there are no cases in {shared}: set FLOWENGINE_SHARED", file=sys.stderr)
        return 2
    print(summary([*cases, *graphs]))
    counts = count_passes(cases, shared)
    good = sorted(r.id for r in graphs if r.status == "pass")
    floor = read_floor() if FILE.exists() else {"cases": {}, "graphs": []}
    fallen = below(counts, floor["cases"])
    lost = sorted(set(floor["graphs"]) - set(good))
    if fallen or lost:
        print(f"not written: fallen {fallen}, lost {lost}", file=sys.stderr)
        return 1
    FILE.write_text(json.dumps({"cases": counts, "graphs": good}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
