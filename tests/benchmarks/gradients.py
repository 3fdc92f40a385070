"""The cost of the gradients of an Inception-v3-size training graph, beside TensorFlow 1.15.

    taskset -c 1 python -m tests.benchmarks.gradients --maker PYTHON [--batch 1] [--rounds 5]

TensorFlow 1.15 (`--maker`, or FLOWENGINE_TENSORFLOW1_PYTHON) builds the graph and adds its gradients, see
`make_gradients.py`; this engine loads the graph as it was before, and adds its own. Printed are CPU times of
both, how many nodes were added, and the CPU time of a training step of either graph, both run here in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import flowengine as fe
from tests.benchmarks.engines import HERE

_RATE = 1e-7


def extended(forward: bytes, variables: Sequence[str]) -> tuple[fe.Graph, float, int]:
    """The graph with its gradients and a step of gradient descent; CPU seconds and nodes of the gradients."""
    graph = fe.Graph.from_graph_def(forward)
    loss, xs = graph.tensor("loss:0"), [graph.tensor(f"{name}:0") for name in variables]
    before = len(graph.operations())
    start = time.process_time()
    found = fe.gradients(loss, xs)
    seconds = time.process_time() - start
    added = len(graph.operations()) - before
    updates = [
        graph.ops.ApplyGradientDescent(x, graph.constant(_RATE, "float32"), gradient).op
        for x, gradient in zip(xs, found, strict=True)
        if gradient is not None
    ]
    with graph.control_dependencies(updates):
        graph.ops.NoOp(name="train")
    return graph, seconds, added


def steps(graphs: Sequence[fe.Graph], setup: str, rounds: int) -> tuple[list[float], list[Any]]:
    """For each graph the median CPU seconds of a step, in turns, and the loss before the first."""
    sessions = [fe.blocking.Session(graph) for graph in graphs]
    times: list[list[float]] = [[] for _ in graphs]
    losses = []
    for session in sessions:
        session.run([], targets=[setup])
        losses.append(session.run("loss:0"))
        for _ in range(8):
            session.run([], targets=["train"])
    for _ in range(rounds):
        for session, column in zip(sessions, times, strict=True):
            start = time.process_time()
            session.run([], targets=["train"])
            column.append(time.process_time() - start)
    for session in sessions:
        session.close()
    return [median(column) for column in times], losses


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gradients")
    parser.add_argument("--maker", default=os.environ.get("FLOWENGINE_TENSORFLOW1_PYTHON"), metavar="PYTHON")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if not given.maker:
        parser.error("a Python that has TensorFlow 1.15 is needed: --maker or FLOWENGINE_TENSORFLOW1_PYTHON")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make = [given.maker, str(HERE / "make_gradients.py"), name, str(given.batch), str(given.rounds)]
        subprocess.run(make, check=True)
        told = json.loads((folder / "there.json").read_text(encoding="utf-8"))
        forward = (folder / "forward.pb").read_bytes()
        there = fe.Graph.from_graph_def((folder / "there.pb").read_bytes())
    made = [extended(forward, told["variables"]) for _ in range(given.rounds)]
    ours, theirs = min(seconds for _, seconds, _ in made), min(told["seconds"])
    here, _, added = made[-1]
    print(f"adding gradients, CPU ms   {ours * 1e3:9.1f} {theirs * 1e3:9.1f} {ours / theirs:6.2f}")
    print(f"nodes added                {added:9} {told['added']:9} {added / told['added']:6.2f}", flush=True)
    (mine, other), losses = steps([here, there], told["setup"], given.rounds)
    print(f"a step, CPU ms             {mine * 1e3:9.1f} {other * 1e3:9.1f} {mine / other:6.2f}")
    print(f"losses {losses[0]} {losses[1]}")


if __name__ == "__main__":
    main()
