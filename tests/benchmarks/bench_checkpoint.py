"""Saving and restoring 500 MB of variables, here and in TensorFlow.

    python -m tests.benchmarks.bench_checkpoint --tensorflow /path/to/python [--turns 7] [--cores 2]

The same MetaGraphDef in both engines, which take turns: one saves and restores, then the other. Here in three
ways: the Saver without and with waiting for the disk, and the graph's own nodes as a step.

Expected: a save is a copy into the page cache and a checksum, a restore the way back. What is not synced is
slowed down by the kernel's writing back of earlier saves, which hits either engine: trust the best of the
turns before the medians. A restore here sets variables to what was read, without another copy.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

import flowengine as fe
from flowengine.train.meta_graphs import describe_saver
from flowengine.train.saveables import of_graph
from flowengine.train.saver_nodes import add_saver_nodes
from tests.benchmarks.engines import Engine

#: 8 large matrices and 100 small ones: floats of each.
SIZES: Final = (12_500_000,) * 8 + (250_000,) * 100
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
    (folder / "model.meta").write_bytes(describe_saver(graph, nodes, max_to_keep=1, every_hours=None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tensorflow", help="a Python that has TensorFlow; without it, only this engine runs"
    )
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--folder", help="where to save; by default where temporary files are")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as name, ExitStack() as stack:
        write_model(Path(name))
        ours = stack.enter_context(Engine(sys.executable, "checkpoint_flowengine.py", asked.cores))
        theirs = None
        if asked.tensorflow:
            theirs = stack.enter_context(Engine(asked.tensorflow, "checkpoint_tensorflow.py", asked.cores))
        print(f"{4 * sum(SIZES) / 1e6:.0f} MB, GB/s: median (best)" + (f"; {theirs.name}" if theirs else ""))
        compare(name, ours, theirs, asked.turns)


def compare(folder: str, ours: Engine, theirs: Engine | None, turns: int) -> None:
    """Let the engines take turns and print their rates; the first turn of each is not counted."""
    found: dict[tuple[str, str], list[float]] = {}
    for turn in range(turns + 1):
        for kind in ("theirs", *KINDS) if theirs is not None else KINDS:
            engine = theirs if kind == "theirs" and theirs is not None else ours
            answer = engine.ask(what="turn", folder=folder, kind=kind)
            if turn:
                for what, seconds in answer.items():
                    found.setdefault((kind, what), []).append(seconds)
    size = 4 * sum(SIZES) / 1e9
    for (kind, what), seconds in found.items():
        line = f"{kind:8} {what:8} {size / statistics.median(seconds):6.2f} ({size / min(seconds):5.2f})"
        if theirs is not None and kind != "theirs":
            other = found["theirs", what]
            ratios = [b / a for a, b in zip(seconds, other, strict=True)]
            line += (
                f"   ratio {statistics.median(ratios):.2f} (best over best {min(other) / min(seconds):.2f})"
            )
        print(line, flush=True)


if __name__ == "__main__":
    main()
