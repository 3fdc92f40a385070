"""The cost of a step as the documentation first shows it: fetches by name, through four APIs (doors).

    python -m tests.benchmarks.roads [--tensorflow PYTHON] [--starlette PYTHON] [--rounds N] [ROAD ...]

Each road is a step as README, the tutorials and guides write it. The first column is the same step with a
list of fetches through `fe.Session`; the others are what the documentation shows, by `fe.Session`,
`fe.asyncio`, `fe.anyio` on asyncio and `fe.blocking`, in microseconds a step. Doors take turns; each figure
is the median of the rounds. With a Python that has TensorFlow 2, its steps of the same graphs stand beside.
`digits_fit` is a step of the tutorial's `fit`, beside a loop that is written by hand and Keras' `fit`.
`service` is a request to the tutorial's service, for Pythons that have Starlette.

Goals: a structure at most 1.1 of the list; asyncio and anyio 15 us more, blocking 25 us more; all of these at
most 0.8 of TensorFlow, 0.3 for one op.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe
from flowengine.saved_model.reading import read_saved_model
from tests.benchmarks.roads_fit import FIT, fit_times
from tests.client import model_feeds, models

_EXAMPLES: Final = Path(__file__).resolve().parents[2] / "docs" / "examples"
_PEER: Final = Path(__file__).with_name("roads_tensorflow.py")
#: Steps before any is timed: a plan is compiled after its first few.
_WARM: Final = 60
#: How long a door is timed in each round, in seconds.
_SECONDS: Final = 0.25
DOORS: Final = ("list", "trio", "asyncio", "anyio", "blocking")


@dataclass(frozen=True)
class Road:
    """A step that the documentation shows.

    graph     what sessions run
    fetches   as the documentation writes them
    listed    the same tensors as a list
    feeds     {tensor: value}
    targets   run beside the fetches
    setup     targets that run once, before the first step
    model     the SavedModel that is called instead, by its input's name; empty for a graph
    """

    name: str
    graph: fe.Graph
    fetches: Any
    listed: Sequence[Any]
    feeds: dict[Any, Any]
    targets: Sequence[Any] = ()
    setup: Sequence[Any] = ()
    model: str = ""


def one_op() -> Road:
    """A graph of one op, by names."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    fe.square(x, name="y")
    return Road("one_op", graph, "y:0", ["y:0"], {"x:0": 2.0})


def model_call() -> Road:
    """README's model: a picture of a digit, its scores by name."""
    model = read_saved_model(_EXAMPLES / "keras_digits")
    signature = model.signatures["serving_default"]
    (image,), (scores,) = signature.inputs["image"].tensors, signature.outputs["scores"].tensors
    picture = np.zeros((1, 8, 8, 1), np.float32)
    graph: Any = model.graph
    names = {"scores": scores}
    return Road("model_call", graph, names, [scores], {image: picture}, model="image")


def white_paper() -> Road:
    """The white paper's Figure 1: a cost is fetched while its input is fed."""
    graph = fe.Graph()
    b = graph.variable(np.zeros([100], np.float32), name="b")
    w = graph.variable(np.random.default_rng(0).uniform(-1, 1, (784, 100)).astype(np.float32), name="W")
    x = graph.placeholder("float32", [1, 784], name="x")
    fe.identity(fe.reduce_mean(fe.nn.relu(fe.matmul(x, w) + b)), name="C")
    graph.group(w.initializer, b.initializer, name="init")
    image = np.random.default_rng(1).random((1, 784), np.float32)
    return Road("white_paper", graph, "C:0", ["C:0"], {"x:0": image}, (), ["init"])


def osdi() -> Road:
    """The OSDI paper's Figure 1: a step that trains two layers on a batch."""
    graph, random = fe.Graph(), np.random.default_rng(0)
    x = graph.placeholder("float32", [None, 64], name="x")
    y = graph.placeholder("float32", [32, 10], name="y")
    variables = [
        graph.variable(random.uniform(-0.3, 0.3, shape).astype(np.float32), name=name)
        for name, shape in (("W_1", (64, 100)), ("b_1", (100,)), ("W_2", (100, 10)), ("b_2", (10,)))
    ]
    w_1, b_1, w_2, b_2 = variables
    logits = fe.matmul(fe.nn.relu(fe.matmul(x, w_1) + b_1), w_2) + b_2
    loss = fe.nn.softmax_cross_entropy_with_logits(y, logits)
    graph.group(fe.optimizers.AdaGrad(0.1).minimize(loss), name="train")
    graph.group(*(each.initializer for each in graph.collection("variables")), name="init")
    feeds = {
        "x:0": random.normal(size=(32, 64)).astype(np.float32),
        "y:0": np.eye(10, dtype=np.float32)[np.arange(32) % 10],
    }
    return Road("osdi", graph, "train", ["train"], feeds, (), ["init"])


def language_model() -> Road:
    """A training step of an LSTM language model, its loss by name."""
    graph = models.build("language", "float32")
    feeds = {f"{key}:0": value for key, value in model_feeds.feeds("language", 0, "float32").items()}
    return Road("language_model", graph, {"loss": "loss:0"}, ["loss:0"], feeds, ["train"], ["init"])


ROADS: Final[dict[str, Callable[[], Road]]] = {
    each.__name__: each for each in (one_op, model_call, white_paper, osdi, language_model)
}


#: What opens a session, and what loads a model, by the door; a list goes through the first.
_OPEN: Final[dict[str, tuple[Any, Any]]] = {
    "list": (fe.Session, fe.saved_model.load),
    "trio": (fe.Session, fe.saved_model.load),
    "asyncio": (fe.asyncio.Session, fe.asyncio.load_saved_model),
    "anyio": (fe.anyio.Session, fe.anyio.load_saved_model),
    "blocking": (fe.blocking.Session, fe.blocking.load_saved_model),
}


def _step(road: Road, door: str, opened: Any) -> Callable[[], Any]:
    """Return a function that runs one step of what was opened; awaitable but for a blocking one."""
    if not road.model:
        fetches = road.listed if door == "list" else road.fetches
        return lambda: opened.run(fetches, road.feeds, targets=road.targets)
    if door == "list":
        return lambda: opened.session.run(road.listed, road.feeds)
    (picture,) = road.feeds.values()
    return lambda: opened(**{road.model: picture})


def _least(parts: Sequence[tuple[float, int]]) -> float:
    return min(seconds / count for seconds, count in parts) * 1e6


async def _awaited(road: Road, door: str) -> float:
    """Return the microseconds of a step that is awaited, the least of five parts."""
    session, load = _OPEN[door]
    async with await load(_EXAMPLES / "keras_digits") if road.model else session(road.graph) as opened:
        if road.setup:
            await opened.run([], targets=road.setup)
        step = _step(road, door, opened)
        for _ in range(_WARM):
            await step()
        parts = []
        for _ in range(5):
            begun, count = perf_counter(), 0
            while (now := perf_counter()) - begun < _SECONDS / 5:
                await step()
                count += 1
            parts.append((now - begun, count))
        return _least(parts)


def _called(road: Road, door: str) -> float:
    """Return the microseconds of a step that blocks, the least of five parts."""
    session, load = _OPEN[door]
    with load(_EXAMPLES / "keras_digits") if road.model else session(road.graph) as opened:
        if road.setup:
            opened.run([], targets=road.setup)
        step = _step(road, door, opened)
        for _ in range(_WARM):
            step()
        parts = []
        for _ in range(5):
            begun, count = perf_counter(), 0
            while (now := perf_counter()) - begun < _SECONDS / 5:
                step()
                count += 1
            parts.append((now - begun, count))
        return _least(parts)


def timed(road: Road, door: str) -> float:
    """Return the microseconds of a step through a door, in a session of its own."""
    if door == "blocking":
        return _called(road, door)
    if door in ("asyncio", "anyio"):
        return asyncio.run(_awaited(road, door))
    return float(trio.run(_awaited, road, door))


def peer_times(python: str, roads: Sequence[Road]) -> dict[str, float]:
    """Return {road: microseconds} of TensorFlow's steps of the same graphs and feeds."""
    with tempfile.TemporaryDirectory() as folder:
        for road in roads:
            (Path(folder) / f"{road.name}.pb").write_bytes(road.graph.to_graph_def().SerializeToString())
            np.savez(Path(folder) / f"{road.name}.npz", **road.feeds)
        asked = {
            road.name: {
                "fetches": list(road.listed),
                "targets": list(road.targets),
                "setup": list(road.setup),
            }
            for road in roads
        }
        (Path(folder) / "roads.json").write_text(json.dumps(asked), encoding="utf-8")
        command = [python, str(_PEER), folder, str(_EXAMPLES / "keras_digits")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def service_times(python: str, tensorflow: str | None, rounds: int) -> tuple[float, float | None]:
    """Return microseconds of a request to the tutorial's service, and to its peer if there is one."""
    script = Path(__file__).with_name("roads_service.py")
    sides = [[python, "-m", "tests.benchmarks.roads_service"]]
    sides += [] if tensorflow is None else [[tensorflow, str(script), "PEER"]]
    found: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for times, command in zip(found, sides, strict=True):
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            times.append(float(done.stdout.splitlines()[-1]))
    return median(found[0]), median(found[1]) if tensorflow else None


def main() -> None:
    """Time the roads that are named, or all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("roads", nargs="*", choices=[*ROADS, FIT, []], help="all where none is named")
    parser.add_argument("--tensorflow", help="a Python that has TensorFlow 2")
    parser.add_argument("--starlette", help="a Python that has Starlette, for the row of the service")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    roads = [ROADS[name]() for name in asked.roads or ROADS if name in ROADS]
    times: dict[tuple[str, str], list[float]] = {}
    peers: dict[str, list[float]] = {}
    for _ in range(asked.rounds):
        for road in roads:
            for door in DOORS:
                times.setdefault((road.name, door), []).append(timed(road, door))
        if asked.tensorflow:
            for name, value in peer_times(asked.tensorflow, roads).items():
                peers.setdefault(name, []).append(value)
    fits, keras = fit_times(asked.tensorflow) if not asked.roads or FIT in asked.roads else ({}, None)
    print(f"{'us a step':16}" + "".join(f"{door:>10}" for door in DOORS) + f"{'TensorFlow':>12}")
    for road in roads:
        row = "".join(f"{median(times[road.name, door]):10.1f}" for door in DOORS)
        peer = f"{median(peers[road.name]):12.1f}" if road.name in peers else f"{'':>12}"
        print(f"{road.name:16}{row}{peer}")
    if fits:
        row = "".join(f"{fits[door]:10.1f}" if door in fits else f"{'':>10}" for door in DOORS)
        print(f"{FIT:16}{row}" + ("" if keras is None else f"{keras:12.1f}"))
    if asked.starlette:
        own, peer_time = service_times(asked.starlette, asked.tensorflow, asked.rounds)
        row = "".join(f"{own:10.1f}" if door == "anyio" else f"{'':>10}" for door in DOORS)
        print(f"{'service':16}{row}" + ("" if peer_time is None else f"{peer_time:12.1f}"))


if __name__ == "__main__":
    main()
