"""The cost of building an Inception-v3-size training graph, beside TensorFlow 1.15.

    taskset -c 1 python -m tests.benchmarks.building --maker PYTHON [--batch 8] [--rounds 5]

Both libraries build the same model in turns, each in a process of its own: layers, batch normalisation with
its updates, loss, gradients and RMSProp. Printed are the CPU seconds of each round, their ratio, and how many
nodes the graphs have. The variables must have the same names and shapes.

Expected: TensorFlow makes about 9,000 nodes at 0.4 ms each; here a node is a conversion of its arguments, an
entry in dictionaries and a shape function, 30 us.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import time
from statistics import median
from typing import Any, Final

import flowengine as fe
from tests.benchmarks import make_networks
from tests.benchmarks.engines import HERE

#: The network is written against one interface, which the layers of either library have.
_network: Final[Any] = make_networks.inception_v3


class Layers:
    """Builders that `make_networks.inception_v3` calls: this library's layers."""

    def __init__(self, graph: fe.Graph, batch: int) -> None:
        self.images = graph.placeholder("float32", [batch, 299, 299, 3], name="images")

    def conv(
        self, x: Any, outputs: int, window: Any, stride: int = 1, padding: str = "SAME", norm: bool = False
    ) -> Any:
        y = fe.layers.conv2d(x, outputs, window, stride, padding, use_bias=not norm)
        return fe.nn.relu(fe.layers.batch_normalization(y, training=True) if norm else y)

    def pool(self, x: Any, window: int = 2, stride: int = 2, padding: str = "VALID") -> Any:
        return fe.layers.max_pooling2d(x, window, stride, padding)

    def mean(self, x: Any, window: int, stride: int = 1, padding: str = "VALID") -> Any:
        return fe.layers.average_pooling2d(x, window, stride, padding)

    def dense(self, x: Any, outputs: int, relu: bool = True) -> Any:
        return fe.layers.dense(fe.layers.flatten(x), outputs, fe.nn.relu if relu else None)

    def join(self, *parts: Any) -> Any:
        return fe.concat(list(parts), 3)


def build(batch: int) -> fe.Graph:
    """The training graph."""
    graph = fe.Graph()
    logits = _network(Layers(graph, batch))
    labels = graph.placeholder("int32", [batch], name="labels")
    loss = fe.losses.sparse_softmax_cross_entropy(labels, logits)
    with graph.control_dependencies(graph.collection("update_ops")):
        fe.optimizers.RMSProp(0.045, decay=0.9, momentum=0.9, epsilon=1.0).minimize(loss)
    return graph


def measured(batch: int) -> dict[str, Any]:
    """CPU seconds, nodes, and the names and shapes of variables."""
    start = time.process_time()
    graph = build(batch)
    seconds = time.process_time() - start
    variables = [f"{each.op.name} {each.shape.as_list()}" for each in graph.collection("variables")]
    return {"seconds": seconds, "nodes": len(graph), "variables": variables}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.building")
    parser.add_argument("--maker", default=os.environ.get("FLOWENGINE_TENSORFLOW1_PYTHON"), metavar="PYTHON")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if not given.maker:
        parser.error("a Python that has TensorFlow 1.15 is needed: --maker or FLOWENGINE_TENSORFLOW1_PYTHON")
    command = [given.maker, str(HERE / "building_peer.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        rounds = []
        for number in range(given.rounds + 1):
            print(given.batch, file=peer.stdin, flush=True)
            there = json.loads(peer.stdout.readline())
            gc.collect()
            here = measured(given.batch)
            if number == 0:
                # The first loads modules on both sides; it is compared, and not counted.
                _compare(here["variables"], there["variables"])
                print(f"nodes: {there['nodes']} there, {here['nodes']} here")
                continue
            rounds.append((here["seconds"], there["seconds"]))
            print(f"round {number}: {there['seconds']:.3f} s there, {here['seconds']:.3f} s here", flush=True)
        peer.stdin.close()
    ours, theirs = (median(column) for column in zip(*rounds, strict=True))
    print(f"median: {theirs:.3f} s there, {ours:.3f} s here; here / there {ours / theirs:.3f}")


def _compare(here: list[str], there: list[str]) -> None:
    different = sorted(set(here) ^ set(there))
    if different:
        raise SystemExit(f"the variables differ: {', '.join(different[:6])}")


if __name__ == "__main__":
    main()
