"""The ops that real graphs hold most of, one by one, at three sizes, beside TensorFlow.

    python -m tests.benchmarks.op_table --tensorflow PYTHON [--markdown FILE] [--results FILE] [NAME...]

Each workload runs one op many times in a step: its inputs are variables, each copy waits for the one before
by a control edge (so that neither engine merges them), and nothing is fetched. TensorFlow's graph optimizer
is off, since it would drop what nobody fetches. The time of a step, divided by the copies, is that of the op
with its share of the engine's overhead. Control flow is measured as loops. With `--results` a run that was
ended is gone on with.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from math import exp, log
from pathlib import Path
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.testing.control import while_loop
from tests.benchmarks.__main__ import compare
from tests.benchmarks.engines import Engine
from tests.benchmarks.op_tables import arrays, elementwise, layers, sparse, state, text
from tests.benchmarks.op_tables.bench import ELEMENTS, Bench, One
from tests.benchmarks.workloads import Run, Workload

#: Copies in a step, by size, so that a step takes milliseconds.
COPIES: Final = (100, 40, 4)
#: Reported without a bound: faster kernels for these are a matter of their own.
UNBOUNDED: Final = frozenset({"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "FusedBatchNormV3"})
#: {family: {op: what makes one of it}}
FAMILIES: Final[dict[str, dict[str, One]]] = {
    "elementwise": elementwise.OPS,
    "arrays": arrays.OPS,
    "layers": layers.OPS,
    "state": state.OPS,
    "sparse": sparse.OPS,
    "text": text.OPS,
}
OPS: Final[dict[str, One]] = {op: one for family in FAMILIES.values() for op, one in family.items()}


def loop(iterations: int) -> Workload:
    """Enter, Merge, Switch, NextIteration and Exit: `while i < n: i += 1`."""
    g = fe.Graph()
    n = g.placeholder("int32", [], name="n")
    i, *_ = while_loop(
        g, lambda i, n: g.ops.Less(i, n), lambda i, n: [g.ops.Add(i, 1)], [g.constant(0)], invariants=[n]
    )
    g.ops.Identity(i, name="y")
    return Workload(
        name=f"Enter..Exit {iterations}",
        graph=g.to_graph_def().SerializeToString(),
        run=Run({"n:0": np.int32(iterations)}, ["y:0"]),
        repeats=5,
    )


def workloads(wanted: list[str]) -> Iterator[Workload]:
    """All ops, or those named, at three sizes."""
    for name, one in OPS.items():
        if not wanted or name in wanted:
            for size, copies in zip(ELEMENTS, COPIES, strict=True):
                yield Bench().workload(name, one, size, copies)
    if not wanted or "Enter..Exit" in wanted:
        for iterations in (1, 30, 1000):
            yield loop(iterations)


def read_results(path: Path | None) -> dict[str, dict[str, Any]]:
    """{name: result} of what an earlier run has kept; nothing where there is no file."""
    if path is None or not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {result["name"]: result for result in map(json.loads, lines)}


def table(results: list[dict[str, Any]]) -> str:
    """A row an op, a column a size, the ratio of the medians in each, and the geometric mean."""
    rows: dict[str, list[float]] = {}
    for result in results:
        name = result["name"].rpartition(" ")[0]
        ours, theirs = result["step"]
        rows.setdefault(name, []).append(ours / theirs)
    lines = ["| op | small | middle | large |", "|---|---|---|---|"]
    for name, ratios in rows.items():
        lines.append(
            f"| {name}{'*' if name in UNBOUNDED else ''} | " + " | ".join(f"{r:.2f}" for r in ratios) + " |"
        )
    bounded = [r for name, ratios in rows.items() if name not in UNBOUNDED for r in ratios]
    mean = exp(sum(map(log, bounded)) / len(bounded))
    lines += ["", f"Geometric mean {mean:.2f}, largest {max(bounded):.2f}, without those marked *."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.op_table")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--tensorflow", default=os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON"), metavar="PYTHON"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cores", type=int, help="of each engine; all where it is left out")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep each result, to go on from")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    given = parser.parse_args()
    if not given.tensorflow:
        parser.error("a Python that has TensorFlow is needed: --tensorflow or FLOWENGINE_TENSORFLOW_PYTHON")
    done = read_results(given.results)
    with ExitStack() as stack:
        ours, theirs = Engine.flowengine(given.cores), Engine.tensorflow(given.tensorflow, given.cores)
        engines = [stack.enter_context(ours), stack.enter_context(theirs)]
        for work in workloads(given.names):
            if work.name in done:
                continue
            result = compare(work, engines, given.rounds)
            if "error" in result:
                print(f"{work.name}: {result['error']}", flush=True)
                continue
            mine, other = result["step"]
            print(
                f"{work.name:<34} {mine * 1e6:>12.1f} us {other * 1e6:>12.1f} us {mine / other:>8.2f}",
                flush=True,
            )
            done[work.name] = result
            if given.results is not None:
                with given.results.open("a", encoding="utf-8") as out:
                    out.write(json.dumps({"name": work.name, "step": result["step"]}) + "\n")
    shown = table(list(done.values()))
    print(shown)
    if given.markdown is not None:
        given.markdown.write_text(shown + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
