"""Full-size convolutional networks beside TensorFlow: training steps at batch 8, inference at 1 and 8.

    python -m tests.benchmarks.networks --maker PYTHON1 --tensorflow PYTHON2 [--cores 2 1] [NAME...]

TensorFlow 1.15 (`--maker`, or FLOWENGINE_TENSORFLOW1_PYTHON) makes the graphs, see `make_networks.py`; they
are kept in `--folder`, where that is given, and made only once. Both engines run each graph in turns, on so
many cores, and have to agree on the value that is fetched. Printed are medians and their ratio, ours to
theirs, and at the end a table in Markdown. TensorFlow's graph optimizer is on, as it is by default.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.engines import HERE, Engine
from tests.benchmarks.make_networks import NETWORKS
from tests.benchmarks.workloads import Run, Workload

#: How far the two may differ in what they fetch: sums of millions of float32 in another order.
_TOLERANCE = 1e-3


def graphs(folder: Path, names: Sequence[str], maker: str | None) -> list[Workload]:
    """The workloads, their graphs made where the folder does not have them."""
    missing = [name for name in names if not (folder / f"{name}.json").exists()]
    if missing:
        if not maker:
            raise SystemExit("a Python that has TensorFlow 1.15 is needed to make graphs: --maker")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([maker, str(HERE / "make_networks.py"), str(folder), *missing], check=True)
    found = []
    for name in names:
        told = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        found.append(
            Workload(
                name=name,
                graph=(folder / f"{name}.pb").read_bytes(),
                run=Run(fetches=told["fetches"], targets=told["targets"]),
                setup=[Run(targets=told["setup"])],
                repeats=1,
            )
        )
    return found


def compare(work: Workload, engines: Sequence[Engine], rounds: int) -> list[float]:
    """Median seconds of a step of each engine; RuntimeError where they do not agree on its value."""
    times: list[list[float]] = [[] for _ in engines]
    values = []
    for engine in engines:
        with tempfile.TemporaryDirectory() as folder:
            work.write(Path(folder))
            loaded = engine.ask(what="load", folder=folder)
            if "error" in loaded:
                raise RuntimeError(f"{engine.name}: {loaded['error']}")
            values.append(engine.ask(what="value"))
            # Both engines settle: ours compiles a plan at its fourth step and joins layers two steps later.
            engine.ask(what="time", repeats=8)
    for _ in range(rounds):
        for number, engine in enumerate(engines):
            times[number] += engine.ask(what="time", repeats=1)
    if len(values) > 1 and not abs(values[0] - values[1]) <= _TOLERANCE * max(1.0, abs(values[1])):
        raise RuntimeError(f"the engines do not agree: {values}")
    return [median(column) for column in times]


def table(results: dict[str, dict[int, list[float]]]) -> str:
    """Rows of networks; for each number of cores, our milliseconds, theirs and the ratio."""
    cores = sorted({count for found in results.values() for count in found}, reverse=True)
    head = "".join(f" {count} core{'s' * (count > 1)}: ms | TensorFlow | ratio |" for count in cores)
    lines = [f"| network |{head}", "|---" * (1 + 3 * len(cores)) + "|"]
    for name, found in results.items():
        cells = ""
        for count in cores:
            if count in found:
                ours, theirs = found[count]
                cells += f" {ours * 1e3:.1f} | {theirs * 1e3:.1f} | {ours / theirs:.2f} |"
            else:
                cells += " | | |"
        lines.append(f"| {name} |{cells}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.networks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument(
        "--tensorflow", default=os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON"), metavar="PYTHON"
    )
    parser.add_argument("--maker", default=os.environ.get("FLOWENGINE_TENSORFLOW1_PYTHON"), metavar="PYTHON")
    parser.add_argument("--folder", type=Path, help="where graphs are kept")
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    if not given.tensorflow:
        parser.error("a Python that has TensorFlow is needed: --tensorflow or FLOWENGINE_TENSORFLOW_PYTHON")
    results: dict[str, dict[int, list[float]]] = {}
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        works = graphs(folder, given.names or list(NETWORKS), given.maker)
        for cores in given.cores:
            with ExitStack() as running:
                engines: list[Any] = [
                    running.enter_context(Engine.flowengine(cores)),
                    running.enter_context(Engine.tensorflow(given.tensorflow, cores)),
                ]
                for work in works:
                    ours, theirs = compare(work, engines, given.rounds)
                    results.setdefault(work.name, {})[cores] = [ours, theirs]
                    print(
                        f"{work.name:<20}{cores} cores{ours * 1e3:>10.1f} ms{theirs * 1e3:>10.1f} ms"
                        f"{ours / theirs:>7.2f}",
                        flush=True,
                    )
    print()
    print(table(results))


if __name__ == "__main__":
    main()
