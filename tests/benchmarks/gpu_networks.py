"""Training steps of four convnets on a GPU: `python -m tests.benchmarks.gpu_networks [--simulated]`.

AlexNet and Overfeat at batch 128, VGG-A and ResNet-50 at 64, GoogLeNet at 128, in float32 and with TF32:
milliseconds a step, the first step, TFLOP/s by the operations of a step, the loss after ten steps, and the
most bytes that the device's pool had. Beside them, in processes of their own, PyTorch eager and compiled
(`gpu_torch.py`) and JAX (`gpu_jax.py`), where those are: the losses have to agree; and what Table 1 of the
paper has of TensorFlow on the card of its day. Inception-v3 only looks at its images. And the first step of
GoogLeNet in two processes: with empty caches on disk, and with full ones.

Asked: at most 1.3 of PyTorch eager's time and 1.1 of its memory; first steps within 20 s, and 3 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import trio

import flowengine as fe
from tests.benchmarks.gpu_nets import BATCHES, RATE, TOLERANCE, NetLayers, images_and_labels, logits
from tests.benchmarks.gpu_sessions import GPU, GpuPlace, command
from tests.gpu.tables import ResultTable

#: TFLOP of a training step at these batches, counted from the layers.
OPERATIONS: Final = {"alexnet": 0.53, "overfeat": 2.12, "vgg_a": 2.91, "googlenet": 1.18, "resnet_50": 1.57}
#: Milliseconds of a training step of TensorFlow on a Titan X: Table 1 of the OSDI paper.
OF_THE_PAPER: Final = {"alexnet": 81, "overfeat": 279, "vgg_a": 540, "googlenet": 445}
#: {heading: script and options}
PEERS: Final = {
    "PyTorch": ("gpu_torch",),
    "PyTorch, compiled": ("gpu_torch", "--compile"),
    "JAX": ("gpu_jax",),
}
TORCH_LIMIT: Final = 1.3
MEMORY_LIMIT: Final = 1.1
#: Of GoogLeNet's first step: with empty caches, and with full ones.
FIRST_LIMITS: Final = (20.0, 3.0)
_TF32: Final = "--tf32"
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
        return ops.BiasAdd(y, bias.value())

    def rectified(self, x: Any) -> Any:
        return self._graph.ops.Relu(x)

    def _pool(self, x: Any, window: int, stride: int, padding: str, *, mean: bool) -> Any:
        op = self._graph.ops.AvgPool if mean else self._graph.ops.MaxPool
        return op(x, ksize=[1, window, window, 1], strides=[1, stride, stride, 1], padding=padding)

    def _dense(self, x: Any, weights: Any, bias: Any, relu: bool) -> Any:
        ops = self._graph.ops
        flat = ops.Reshape(x, [int(x.shape[0]), -1])
        y = ops.BiasAdd(ops.MatMul(flat, weights.value()), bias.value())
        return ops.Relu(y) if relu else y


async def trained(
    place: GpuPlace, name: str, batch: int, narrow: int, steps: int, **config: Any
) -> dict[str, float]:
    """{first, step: seconds; loss: after so many steps; bytes: of the pool, 0 where that is not known}."""
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
    async with place.session(g, **config) as session:
        await session.initialize()
        for _ in range(steps):
            started = perf_counter()
            value = await session.run(loss, targets=[train])
            taken.append(perf_counter() - started)
        # The pool gives nothing back while there is enough: it has what was in use at most.
        used = place.device(session)._pool.total_bytes() if place.is_card else 0
    step = median(taken[len(taken) // 2 :])
    return {"first": taken[0], "step": step, "loss": float(value), "bytes": used}


async def inferred(place: GpuPlace, batch: int, narrow: int, steps: int) -> float:
    """Seconds of a step of Inception-v3 that only looks at its images."""
    images, _ = images_and_labels("inception_v3", batch, narrow)
    g, taken = fe.Graph(), list[float]()
    with g.device(GPU):
        found = fe.reduce_sum(logits("inception_v3", FlowLayers(g, g.constant(images), narrow)))
    async with place.session(g) as session:
        await session.initialize()
        for _ in range(steps):
            started = perf_counter()
            await session.run(found)
            taken.append(perf_counter() - started)
    return median(taken[len(taken) // 2 :])


def peers(name: str, batch: int, *options: str) -> Mapping[str, dict[str, Any]]:
    """{library: what its script has found, or {"error": why not}}."""
    found = {}
    for library, (script, *own) in PEERS.items():
        words = [sys.executable, "-m", f"tests.benchmarks.{script}", name, str(batch), "1", str(_STEPS)]
        found[library] = _told([*words, *own, *options])
    return found


def _told(words: list[str], **environment: str) -> dict[str, Any]:
    """Return the last line a script prints, parsed as JSON; or {"error": the end of its standard error}."""
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment})
    last = done.stdout.strip().splitlines()[-1:] or ["{}"]
    return json.loads(last[0]) if not done.returncode else {"error": done.stderr.strip()[-200:]}


def first_steps(table: ResultTable, place: GpuPlace) -> None:
    """Rows of GoogLeNet's first step, with empty caches and with full ones, each in a process of its own."""
    words = [sys.executable, "-m", "tests.benchmarks.gpu_networks", "--first"]
    words += [] if place.is_card else ["--simulated"]
    with TemporaryDirectory() as folder:
        for caches, limit in zip(("empty", "full"), FIRST_LIMITS, strict=True):
            found = _told(words, XDG_CACHE_HOME=folder)
            first = found.get("first")
            told = f"not here: {found.get('error', '')}" if first is None else f"{first:.1f}"
            blank = [""] * (len(table.headings) - 3)
            table.rows.append((f"googlenet, first step, {caches} caches", "", told, *blank))
            if first is None or (place.is_card and first > limit):
                table.failures.append(f"the first step of googlenet with {caches} caches: {told} s")


def entered(
    table: ResultTable, name: str, rate: str, ours: dict[str, float], others: Mapping[str, dict[str, Any]]
) -> None:
    """Put one network into the table, `rate` in TFLOP/s, and what is not kept beside it."""
    row = [name, f"{ours['step'] * 1e3:.1f}", f"{ours['first']:.1f}", rate, f"{ours['loss']:.4f}"]
    row.append(f"{OF_THE_PAPER.get(name.partition(',')[0], '')}")
    for library in PEERS:
        other = others.get(library, {})
        if "step" not in other:
            row.append("not here")
            continue
        ratio = ours["step"] / other["step"]
        row.append(f"{other['step'] * 1e3:.1f} ({ratio:.2f})")
        if library == "PyTorch" and ratio > TORCH_LIMIT:
            table.failures.append(f"{name} takes {ratio:.2f} of PyTorch's time")
        if library == "PyTorch" and ours["bytes"] > MEMORY_LIMIT * other.get("bytes", float("inf")):
            share = ours["bytes"] / other["bytes"]
            table.failures.append(f"{name} has {share:.2f} of PyTorch's memory")
        if abs(other["loss"] - ours["loss"]) > TOLERANCE * max(1.0, abs(other["loss"])):
            table.failures.append(
                f"{name}: the loss is {ours['loss']:.4f}, {library} has {other['loss']:.4f}"
            )
    theirs = others.get("PyTorch", {}).get("bytes")
    table.rows.append(
        (*row, f"{int(ours['bytes']):,}" + (f" ({ours['bytes'] / theirs:.2f})" if theirs else ""))
    )


async def measure(place: GpuPlace) -> ResultTable:
    """See the module. Networks that are only tried have a thirty-second of their channels, and two images."""
    headings = ("network", "ms a step", "first, s", "TFLOP/s", "loss", "paper, ms", *PEERS, "bytes")
    table = ResultTable(f"Networks, loss after {_STEPS} steps", headings)
    narrow = place.size(1, 32)
    for name, images in BATCHES.items():
        batch = place.size(images, 2)
        for numbers, is_short in (("float32", False), ("TF32", True)):
            if is_short and not place.is_card and name != "alexnet":
                continue
            steps = _STEPS if place.is_card else 2
            ours = await trained(place, name, batch, narrow, steps, tensor_float_32=is_short)
            others = peers(name, batch, *([_TF32] if is_short else [])) if place.is_card else {}
            rate = f"{OPERATIONS[name] / ours['step']:.1f}" if place.is_card else ""
            entered(table, f"{name}, {numbers}", rate, ours, others)
    step = await inferred(place, place.size(128, 1), narrow, place.size(20, 2))
    table.rows.append(("inception_v3, inference", f"{step * 1e3:.1f}", *[""] * (len(headings) - 2)))
    first_steps(table, place)
    return table


def print_first(words: list[str]) -> int:
    """Print {first: seconds} of one step of GoogLeNet in this process."""
    place = GpuPlace(simulated="--simulated" in words)
    batch, narrow = place.size(BATCHES["googlenet"], 1), place.size(1, 64)
    print(json.dumps(trio.run(trained, place, "googlenet", batch, narrow, 1)))
    return 0


if __name__ == "__main__":
    sys.exit(print_first(sys.argv) if "--first" in sys.argv else command("gpu_networks", __doc__, measure))
