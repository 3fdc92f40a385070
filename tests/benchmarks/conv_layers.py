"""Convolutions of known networks, forward and both gradients, beside TensorFlow.

    python -m tests.benchmarks.conv_layers --tensorflow PYTHON [--cores N] [--rounds N] [WORD...]

24 layers of ResNet, VGG, AlexNet, Inception and a small digit network at the batches that they are used
with, each as three workloads: 72 in all. Inputs are variables, nothing is fetched, TensorFlow's graph
optimizer is off; the two engines take turns. Printed are medians, their ratio (ours to theirs), and the
geometric mean for each direction and for all. FLOWENGINE_KERNEL_PROVIDER chooses what computes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np

import flowengine as fe
from tests.benchmarks.__main__ import compare
from tests.benchmarks.engines import Engine
from tests.benchmarks.workloads import Run, Workload

#: Seconds that a round of a workload should take.
_ROUND_SECONDS = 0.05
#: Multiplications and additions of one core in a second, as a first guess of the time.
_SPEED = 5e10


@dataclass(frozen=True)
class Layer:
    """(batch, height, width, inputs) convolved with (rows, columns, inputs, outputs), padded to SAME."""

    height: int
    width: int
    inputs: int
    outputs: int
    rows: int
    columns: int
    stride: int
    batch: int

    @property
    def name(self) -> str:
        return (
            f"{self.height}x{self.width} {self.inputs}->{self.outputs} "
            f"{self.rows}x{self.columns}/{self.stride} b{self.batch}"
        )

    @property
    def products(self) -> float:
        """Multiplications of a pass."""
        pixels = -(-self.height // self.stride) * -(-self.width // self.stride)
        return float(self.batch * pixels * self.rows * self.columns * self.inputs * self.outputs)


LAYERS = (
    Layer(224, 224, 3, 64, 7, 7, 2, 8),
    Layer(56, 56, 64, 64, 3, 3, 1, 8),
    Layer(56, 56, 64, 256, 1, 1, 1, 8),
    Layer(28, 28, 128, 128, 3, 3, 1, 8),
    Layer(14, 14, 256, 256, 3, 3, 1, 8),
    Layer(7, 7, 512, 512, 3, 3, 1, 8),
    Layer(56, 56, 256, 512, 1, 1, 2, 8),
    Layer(224, 224, 64, 64, 3, 3, 1, 8),
    Layer(112, 112, 128, 128, 3, 3, 1, 8),
    Layer(14, 14, 512, 512, 3, 3, 1, 8),
    Layer(227, 227, 3, 96, 11, 11, 4, 8),
    Layer(27, 27, 96, 256, 5, 5, 1, 8),
    Layer(17, 17, 192, 192, 1, 7, 1, 8),
    Layer(35, 35, 96, 96, 3, 3, 1, 8),
    Layer(28, 28, 1, 32, 5, 5, 1, 100),
    Layer(14, 14, 32, 64, 5, 5, 1, 100),
    Layer(56, 56, 64, 64, 3, 3, 1, 1),
    Layer(56, 56, 64, 256, 1, 1, 1, 1),
    Layer(28, 28, 128, 128, 3, 3, 1, 1),
    Layer(14, 14, 256, 256, 3, 3, 1, 1),
    Layer(7, 7, 512, 512, 3, 3, 1, 1),
    Layer(224, 224, 3, 64, 7, 7, 2, 1),
    Layer(28, 28, 128, 128, 3, 3, 1, 32),
    Layer(14, 14, 256, 1024, 1, 1, 1, 32),
)

#: What is computed: the op and what the lines call it.
DIRECTIONS = {
    "forward": "Conv2D",
    "input": "Conv2DBackpropInput",
    "filter": "Conv2DBackpropFilter",
}


def workload(layer: Layer, direction: str) -> Workload:
    """One op over variables."""
    random = np.random.default_rng(0)
    graph = fe.Graph()
    ops = graph.ops
    feeds = {}
    init = []

    def variable(name: str, *shape: int) -> Any:
        made = ops.VariableV2(shape=shape, dtype="float32", name=name)
        given = graph.placeholder("float32", shape, name=f"{name}_given")
        feeds[f"{name}_given:0"] = random.random(shape, np.float32) - 0.5
        init.append(ops.Assign(made, given, name=f"{name}_init").op.name)
        return made

    out = (layer.batch, -(-layer.height // layer.stride), -(-layer.width // layer.stride), layer.outputs)
    x_shape = (layer.batch, layer.height, layer.width, layer.inputs)
    filter_shape = (layer.rows, layer.columns, layer.inputs, layer.outputs)
    attrs: dict[str, Any] = {"strides": [1, layer.stride, layer.stride, 1], "padding": "SAME", "name": "y"}
    if direction == "forward":
        ops.Conv2D(variable("x", *x_shape), variable("f", *filter_shape), **attrs)
    elif direction == "input":
        sizes = graph.constant(np.array(x_shape, np.int32))
        ops.Conv2DBackpropInput(sizes, variable("f", *filter_shape), variable("g", *out), **attrs)
    else:
        sizes = graph.constant(np.array(filter_shape, np.int32))
        ops.Conv2DBackpropFilter(variable("x", *x_shape), sizes, variable("g", *out), **attrs)
    return Workload(
        name=f"{direction} {layer.name}",
        graph=graph.to_graph_def().SerializeToString(),
        run=Run(targets=["y"]),
        setup=[Run(feeds, targets=init)],
        repeats=max(1, min(20, int(_ROUND_SECONDS * _SPEED / layer.products))),
        optimizer=False,
    )


def workloads(words: Sequence[str]) -> Iterator[tuple[str, Workload]]:
    """(direction, workload), all or those whose names hold one of the words."""
    for direction in DIRECTIONS:
        for layer in LAYERS:
            if not words or any(word in f"{direction} {layer.name}" for word in words):
                yield direction, workload(layer, direction)


def geometric_mean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.conv_layers")
    parser.add_argument("words", nargs="*", metavar="WORD", help="part of a name: `filter`, `3x3`, `b8`")
    parser.add_argument(
        "--tensorflow", default=os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON"), metavar="PYTHON"
    )
    parser.add_argument("--cores", type=int, help="how many cores both engines may use")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    if not given.tensorflow:
        parser.error("a Python that has TensorFlow is needed: --tensorflow or FLOWENGINE_TENSORFLOW_PYTHON")
    ratios: dict[str, list[float]] = {direction: [] for direction in DIRECTIONS}
    with ExitStack() as stack:
        engines = [
            stack.enter_context(Engine.flowengine(given.cores)),
            stack.enter_context(Engine.tensorflow(given.tensorflow, given.cores)),
        ]
        for direction, work in workloads(given.words):
            result = compare(work, engines, given.rounds)
            if "error" in result:
                print(f"{work.name}: {result['error']}")
                continue
            ours, theirs = result["step"]
            ratios[direction].append(ours / theirs)
            print(
                f"{work.name:<40}{ours * 1e3:>9.2f} ms{theirs * 1e3:>9.2f} ms{ours / theirs:>7.2f}",
                flush=True,
            )
    for direction, found in ratios.items():
        if found:
            print(f"geometric mean, {direction}: {geometric_mean(found):.2f}")
    every = [ratio for found in ratios.values() for ratio in found]
    if every:
        print(f"geometric mean of {len(every)}: {geometric_mean(every):.2f}")


if __name__ == "__main__":
    main()
