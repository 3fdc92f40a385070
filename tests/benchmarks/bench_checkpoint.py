"""Saving and restoring 500 MB of variables, here and in TensorFlow.

    python -m tests.benchmarks.bench_checkpoint --tensorflow /path/to/python [--turns 7] [--cores 2]

The same MetaGraphDef in both engines, which take turns: one saves and restores, then the other. Here in three
ways: the Saver without and with waiting for the disk, and the graph's own nodes as a step.

Expected: a save is a copy into the page cache and a checksum, a restore the way back. What is not synced is
slowed down by the kernel's writing back of earlier saves, which hits either engine: trust the best of the
turns before the medians. A restore here sets variables to what was read, without another copy, in memory that
is new every time; TensorFlow's allocator keeps what the last restore has freed. So restoring is also measured
in a process that has just begun, which is what happens when a run is resumed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

import flowengine as fe
from flowengine.graphs.saving import add_saver_nodes
from flowengine.train.meta_graphs import describe_saver
from flowengine.train.saveables import of_graph
from tests.benchmarks.engines import Engine

#: 8 large matrices and 100 small ones: floats of each.
SIZES: Final = (12_500_000,) * 8 + (250_000,) * 100
GIGABYTES: Final = 4 * sum(SIZES) / 1e9
KINDS: Final = ("no sync", "sync", "ops")


def write_model(folder: Path) -> None:
    """`model.meta`: variables of 500 MB, a node that sets them, and a saver."""
    graph = fe.Graph(producer=27)
    inits = []
    for number, size in enumerate(SIZES):
        variable = graph.ops.VariableV2(shape=[size // 250, 250], dtype="float32", name=f"v{number}")
        inits.append(graph.ops.Assign(variable, graph.ops.Fill([size // 250, 250], np.float32(number))))
    graph.group(*inits, name="init")
    nodes = add_saver_nodes(graph, of_graph(graph))
    (folder / "model.meta").write_bytes(
        describe_saver(graph, graph.collections, nodes, max_to_keep=1, every_hours=None)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tensorflow", help="a Python that has TensorFlow; without it, only this engine runs"
    )
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--folder", help="where to save; by default where temporary files are")
    asked = parser.parse_args()
    scripts = [(sys.executable, "checkpoint_flowengine.py")]
    if asked.tensorflow:
        scripts.append((asked.tensorflow, "checkpoint_tensorflow.py"))
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        write_model(Path(name))
        with ExitStack() as stack:
            engines = [stack.enter_context(Engine(*each, asked.cores)) for each in scripts]
            print(f"{GIGABYTES * 1e3:.0f} MB, GB/s: median (best); {' and '.join(e.name for e in engines)}")
            compare(name, engines, asked.turns, asked.kind or KINDS)
        resume(name, scripts, asked.turns, asked.cores)


def compare(folder: str, engines: list[Engine], turns: int, kinds: Sequence[str]) -> None:
    """Let the engines take turns and print their rates; the first turn of each is not counted."""
    found: dict[tuple[str, str], list[float]] = {}
    asks = [("theirs", engine) for engine in engines[1:]] + [(kind, engines[0]) for kind in kinds]
    for turn in range(turns + 1):
        for kind, engine in asks:
            answer = engine.ask(what="turn", folder=folder, kind=kind)
            if turn:
                for what, seconds in answer.items():
                    found.setdefault((kind, what), []).append(seconds)
    for (kind, what), seconds in found.items():
        show(f"{kind:8} {what:8}", seconds, None if kind == "theirs" else found.get(("theirs", what)))


def resume(folder: str, scripts: list[tuple[str, str]], turns: int, cores: int | None) -> None:
    """Restoring what the engines have just saved, in a new process every time: what resuming a run takes."""
    found: list[list[float]] = [[] for _ in scripts]
    for _ in range(turns):
        for script, seconds in zip(scripts, found, strict=True):
            with Engine(*script, cores) as engine:
                seconds.append(engine.ask(what="resume", folder=folder)["resume"])
    if len(found) > 1:
        show("theirs   resume  ", found[1], None)
    show("ours     resume  ", found[0], found[1] if len(found) > 1 else None)


def show(label: str, seconds: list[float], other: list[float] | None) -> None:
    """The rates, and their ratio to TensorFlow's."""
    line = f"{label} {GIGABYTES / statistics.median(seconds):6.2f} ({GIGABYTES / min(seconds):5.2f})"
    if other is not None:
        ratios = [b / a for a, b in zip(seconds, other, strict=True)]
        line += f"   ratio {statistics.median(ratios):.2f} (best over best {min(other) / min(seconds):.2f})"
    print(line, flush=True)


if __name__ == "__main__":
    main()
