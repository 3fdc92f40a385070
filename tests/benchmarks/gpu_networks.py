"""Training steps of four convnets on a GPU: `python -m tests.benchmarks.gpu_networks [--simulated]`.

AlexNet and Overfeat at batch 128, VGG-A at 64, GoogLeNet at 128: milliseconds a step, the first step, TFLOP/s
by the operations of a step, the loss after ten steps, and bytes of the card in use. Beside them, in processes
of their own, `gpu_torch.py` and `gpu_jax.py`, where those libraries are: the losses have to agree.

Asked: at most 1.3 of PyTorch's time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from statistics import median
from time import perf_counter
from typing import Any, Final

import flowengine as fe
from tests.benchmarks.gpu_nets import BATCHES, RATE, TOLERANCE, NetLayers, images_and_labels, logits
from tests.benchmarks.gpu_sessions import GPU, GpuPlace, command
from tests.gpu.tables import ResultTable

#: TFLOP of a training step at these batches, counted from the layers.
OPERATIONS: Final = {"alexnet": 0.53, "overfeat": 2.12, "vgg_a": 2.91, "googlenet": 1.18}
PEERS: Final = {"PyTorch": "gpu_torch", "JAX": "gpu_jax"}
TORCH_LIMIT: Final = 1.3
_STEPS: Final = 10


class FlowLayers(NetLayers):
    """Layers of a graph."""

    def __init__(self, graph: fe.Graph, images: Any, narrow: int = 1) -> None:
        super().__init__(images, narrow)
        self._graph = graph

    def made(self, value: Any) -> Any:
        return self._graph.variable(value, name=f"weights{len(self.weights)}")

    def join(self, *parts: Any) -> Any:
        return self._graph.ops.ConcatV2(list(parts), self._graph.constant(3))

    def _conv(self, x: Any, filters: Any, bias: Any, stride: int, padding: str) -> Any:
        ops = self._graph.ops
        y = ops.Conv2D(x, filters.value(), strides=[1, stride, stride, 1], padding=padding)
        return ops.Relu(ops.BiasAdd(y, bias.value()))

    def _pool(self, x: Any, window: int, stride: int, padding: str, *, mean: bool) -> Any:
        op = self._graph.ops.AvgPool if mean else self._graph.ops.MaxPool
        return op(x, ksize=[1, window, window, 1], strides=[1, stride, stride, 1], padding=padding)

    def _dense(self, x: Any, weights: Any, bias: Any, relu: bool) -> Any:
        ops = self._graph.ops
        flat = ops.Reshape(x, [int(x.shape[0]), -1])
        y = ops.BiasAdd(ops.MatMul(flat, weights.value()), bias.value())
        return ops.Relu(y) if relu else y


async def trained(place: GpuPlace, name: str, batch: int, narrow: int, steps: int) -> dict[str, float]:
    """{first, step: seconds; loss: after so many steps; bytes: of the card, 0 where that is not known}."""
    images, labels = images_and_labels(name, batch, narrow)
    g = fe.Graph()
    with g.device(GPU):
        held = g.variable(images, name="images", trainable=False)
        net = FlowLayers(g, g.ops.EnsureShape(held.value(), shape=list(images.shape)), narrow)
        found = logits(name, net)
        losses, _ = g.ops.SparseSoftmaxCrossEntropyWithLogits(found, g.constant(labels))
        loss = fe.reduce_mean(losses)
        train = fe.optimizers.SGD(RATE).minimize(loss)
    taken, value = list[float](), 0.0
    async with place.session(g) as session:
        await session.initialise()
        for _ in range(steps):
            started = perf_counter()
            value = await session.run(loss, targets=[train])
            taken.append(perf_counter() - started)
        used = place.device(session).xp.cuda.runtime.memGetInfo() if place.is_card else (0, 0)
    step = median(taken[len(taken) // 2 :])
    return {"first": taken[0], "step": step, "loss": float(value), "bytes": used[1] - used[0]}


def peers(name: str, batch: int) -> Mapping[str, dict[str, Any]]:
    """{library: what its script has found, or {"error": why not}}."""
    found = {}
    for library, script in PEERS.items():
        words = [sys.executable, "-m", f"tests.benchmarks.{script}", name, str(batch), "1", str(_STEPS)]
        done = subprocess.run(words, capture_output=True, text=True)
        last = done.stdout.strip().splitlines()[-1:] or ["{}"]
        found[library] = json.loads(last[0]) if not done.returncode else {"error": done.stderr.strip()[-200:]}
    return found


def entered(
    table: ResultTable, name: str, rate: str, ours: dict[str, float], others: Mapping[str, dict[str, Any]]
) -> None:
    """Put one network into the table, `rate` in TFLOP/s, and what is not kept beside it."""
    row = [name, f"{ours['step'] * 1e3:.1f}", f"{ours['first']:.1f}", rate, f"{ours['loss']:.4f}"]
    for library in PEERS:
        other = others.get(library, {})
        if "step" not in other:
            row.append("not here")
            continue
        ratio = ours["step"] / other["step"]
        row.append(f"{other['step'] * 1e3:.1f} ({ratio:.2f})")
        if library == "PyTorch" and ratio > TORCH_LIMIT:
            table.failures.append(f"{name} takes {ratio:.2f} of PyTorch's time")
        if abs(other["loss"] - ours["loss"]) > TOLERANCE * max(1.0, abs(other["loss"])):
            table.failures.append(
                f"{name}: the loss is {ours['loss']:.4f}, {library} has {other['loss']:.4f}"
            )
    table.rows.append((*row, f"{int(ours['bytes']):,}"))


async def measure(place: GpuPlace) -> ResultTable:
    """See the module. Networks that are only tried have a thirty-second of their channels, and two images."""
    headings = ("network", "ms a step", "first, s", "TFLOP/s", "loss", *PEERS, "bytes")
    table = ResultTable(f"Networks, loss after {_STEPS} steps", headings)
    narrow = place.size(1, 32)
    for name, images in BATCHES.items():
        batch = place.size(images, 2)
        ours = await trained(place, name, batch, narrow, _STEPS if place.is_card else 2)
        others = peers(name, batch) if place.is_card else {}
        rate = f"{OPERATIONS[name] / ours['step']:.1f}" if place.is_card else ""
        entered(table, name, rate, ours, others)
    return table


if __name__ == "__main__":
    sys.exit(command("gpu_networks", __doc__, measure))
