"""How late a host's task is beside many steps of one trio program: `python -m tests.benchmarks.lateness`.

    python -m tests.benchmarks.lateness [OLD [NEW]] [--seconds 30] [--repeats 5]

A task of the host sleeps 2 ms at a time beside 200 tasks that make steps of about 3 ms, all of whose kernels
are short and run on the event loop's thread; beside the same steps behind one `trio.CapacityLimiter(1)`;
beside 1,000 null steps by 50 tasks; and beside nothing, the control of the machine. Every case is a process
of its own; they take turns, and medians of five are told. OLD and NEW are commits or folders, this checkout
if none is named; with two, OLD is run again as their control.

What is asked of NEW:

    lateness at the 99th percentile beside 200 steps   at most 1.25 of the same behind the limiter, and
                                                       at most two slices and the longest kernel
    the same beside null steps                         at most two slices
    steps a second                                     at least 0.97 of OLD's

On paper: a slice of 2 ms belongs to the event loop, however many steps there are, so a sleep ends one slice
late, or two where the host's task is the last of its round. Behind the limiter it is a step, 3 ms.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

import flowengine as fe
from tests.benchmarks.against.trees import ROOT, Tree, tree
from tests.benchmarks.engines import HERE, held_to

#: {load: tasks}
LOADS: Final = {"alone": 0, "free": 200, "limited": 200, "null": 50}
SLICE_SECONDS: Final = 0.002
LATENESS_LIMIT: Final = 1.25
THROUGHPUT_LIMIT: Final = 0.97
#: A cumulative sum of so many numbers is 60 us, and nothing that a pass joins with its neighbours.
NUMBERS: Final = 16_000
PAIRS: Final = 46


def steps_of_short_kernels() -> fe.Graph:
    """`y`: 46 cumulative sums and as many products, 3 ms. `kernel`: one of the sums. `null`: one number."""
    g = fe.Graph()
    x = g.placeholder("float32", [NUMBERS], name="x")
    y = x
    for _ in range(PAIRS):
        y = g.ops.Cumsum(g.ops.Mul(y, x), 0)
    g.ops.Identity(y, name="y")
    g.ops.Cumsum(x, 0, name="kernel")
    g.ops.Neg(g.placeholder("float32", [], name="number"), name="null")
    return g


def write(folder: Path) -> None:
    (folder / "graph.pb").write_bytes(steps_of_short_kernels().to_graph_def().SerializeToString())
    np.save(folder / "x.npy", np.full(NUMBERS, 1e-3, np.float32), allow_pickle=False)


def measure(side: Tree, load: str, folder: Path, seconds: float, cores: int | None) -> dict[str, Any]:
    """One process of a tree: what `lateness_peer.py` prints."""
    arguments = {"folder": str(folder), "load": load, "seconds": seconds, "tasks": LOADS[load]}
    with held_to(cores):
        done = subprocess.run(
            [sys.executable, str(HERE / "lateness_peer.py"), json.dumps(arguments)],
            env=side.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{side.name}, {load}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    side.check(found["files"])
    return found


class Findings:
    """Documents of all processes: {(side, load): one for each repetition}."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def add(self, side: str, load: str, document: dict[str, Any]) -> None:
        self.documents.setdefault((side, load), []).append(document)

    def late(self, side: str, load: str, part: str = "0.99") -> float:
        return median(float(each["late"][part]) for each in self.documents[side, load])

    def number(self, side: str, load: str, name: str) -> float:
        return median(float(each[name]) for each in self.documents[side, load])

    def kernel(self, side: str) -> float:
        """Return the seconds that the longest inline kernel takes."""
        return median(float(each["least"]["kernel"]) for each in self.documents[side, "free"])

    def rows(self) -> list[str]:
        """Milliseconds of lateness, steps a second, processor time of a step, part of it on the loop."""
        head = f"{'side':<9}{'load':<9}{'median':>9}{'99 %':>9}{'most':>9}{'steps/s':>10}{'ms a step':>11}"
        rows = [head + f"{'inline':>8}"]
        for side, load in self.documents:
            late = "".join(f"{self.late(side, load, part) * 1e3:>9.2f}" for part in ("0.5", "0.99", "1.0"))
            rows.append(
                f"{side:<9}{load:<9}{late}{self.number(side, load, 'steps_per_second'):>10.0f}"
                f"{self.number(side, load, 'processor_per_step') * 1e3:>11.3f}"
                f"{self.number(side, load, 'inline'):>8.2f}"
            )
        return rows


def verdicts(found: Findings, side: str, older: str | None) -> list[tuple[str, float, float, bool]]:
    """(what is asked, the figure, its bound, whether it is kept) of a side."""
    late = found.late(side, "free")
    two_slices = 2 * SLICE_SECONDS
    asked = [
        ("99 % beside steps, to the limiter's", late / found.late(side, "limited"), LATENESS_LIMIT),
        ("99 % beside steps, ms", late * 1e3, (two_slices + found.kernel(side)) * 1e3),
        ("99 % beside null steps, ms", found.late(side, "null") * 1e3, two_slices * 1e3),
    ]
    made = [(name, figure, bound, figure <= bound) for name, figure, bound in asked]
    if older is not None:
        for load in ("free", "limited"):
            name = "steps_per_second"
            ratio = found.number(side, load, name) / found.number(older, load, name)
            made.append(
                (f"steps a second, {load}, to {older}'s", ratio, THROUGHPUT_LIMIT, ratio >= THROUGHPUT_LIMIT)
            )
    return made


def run(sides: Mapping[str, Tree], loads: Sequence[str], options: argparse.Namespace) -> Findings:
    """Every case of every side in turns, again and again."""
    found = Findings()
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        for number in range(options.repeats):
            first = number % len(sides)
            order = [*sides][first:] + [*sides][:first]
            for load in loads:
                for side in order:
                    found.add(
                        side, load, measure(sides[side], load, Path(name), options.seconds, options.cores)
                    )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table and what is asked of it; 0 if all of it is kept."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.lateness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("trees", nargs="*", metavar="TREE", help="OLD and NEW, or one: commits or folders")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each process")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cores", type=int, choices=(1, 2), help="hold processes to so many")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep what every process said")
    options = parser.parse_args(arguments)
    if len(options.trees) > 2:
        parser.error("two trees at most: OLD NEW")
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        named = options.trees or [str(ROOT)]
        names = ["old", "new"][-len(named) :]
        sides = {
            name: stack.enter_context(tree(each, scratch, name))
            for name, each in zip(names, named, strict=True)
        }
        if "old" in sides:
            sides["control"] = sides["old"]
        found = run(sides, list(LOADS), options)
    print("\n".join(found.rows()))
    judged = verdicts(found, "new", "old" if "old" in sides else None)
    for text, figure, bound, kept in judged:
        print(f"{text:<45}{figure:>9.3f}{bound:>9.3f}  {'yes' if kept else 'NO'}")
    if options.json is not None:
        kept_rounds = [{"side": a, "load": b, "processes": c} for (a, b), c in found.documents.items()]
        options.json.write_text(json.dumps(kept_rounds, indent=1) + "\n", encoding="utf-8")
    return int(not all(kept for *_, kept in judged))


if __name__ == "__main__":
    sys.exit(main())
