"""The cost of a step of fifteen models: graphs of the client library beside TensorFlow 1.15's.

    taskset -c 1 python -m tests.benchmarks.model_steps --maker PYTHON [--rounds 15] [MODEL ...]

TensorFlow 1.15 (`--maker`) builds the models of `tests/client` once; both graphs of a model then run here, in
turns, with equal feeds and first values. Printed are the medians of CPU time, and of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import trio

import flowengine as fe
from tests.client import exchanged, models
from tests.client.model_feeds import feeds

#: Steps before anything is measured: the plan is compiled, and variables have come to lie together.
_WARM = 80
#: CPU seconds of a round.
_ROUND = 0.06
_ROOT = Path(__file__).resolve().parents[2]


def graphs(model: str, maker: str) -> list[fe.Graph]:
    """[the library's, TensorFlow's]"""
    with tempfile.TemporaryDirectory() as folder:
        if model in exchanged.MODELS:
            path = Path(folder, "graph.meta")
            command = [maker, "-m", "tests.client.exchange_in_tensorflow", "build", model, "float32", path]
            mine = exchanged.build(model, "float32")
        else:
            path = Path(folder, "graph.pb")
            command = [maker, "tests/client/models_tensorflow.py", "build", model, "float32", path]
            mine = models.build(model, "float32")
        subprocess.run([*map(str, command)], cwd=_ROOT, check=True, capture_output=True)
        return [mine, fe.Graph.load(path)]


async def step_of(session: fe.Session, model: str) -> Callable[[], Awaitable[Any]]:
    """Return a function that runs a step of a model, after setting the model's variables."""
    if model in exchanged.MODELS:
        await session.initialize()
        return lambda: session.run("loss:0", targets=["train"])
    await session.run([], targets=["init"])
    given = {f"{key}:0": value for key, value in feeds(model, 0, "float32").items()}
    # Two that are trained alternately.
    others = ["train_1"] if model == "gan" else []

    async def step() -> None:
        await session.run("loss:0", given, targets=["train"])
        for other in others:
            await session.run([], given, targets=[other])

    return step


async def seconds(step: Callable[[], Awaitable[Any]], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        await step()
    return (time.process_time() - start) / count


async def compared(model: str, maker: str, rounds: int) -> tuple[float, float, float]:
    """(seconds of a step of the library's graph, of TensorFlow's, the ratio)."""
    mine, theirs = graphs(model, maker)
    async with fe.Session(mine) as one, fe.Session(theirs) as other:
        steps = [await step_of(each, model) for each in (one, other)]
        paces = [await seconds(step, _WARM) for step in steps]
        count = max(3, int(_ROUND / min(paces)))
        found: list[tuple[float, ...]] = []
        for turn in range(rounds):
            order = (0, 1) if turn % 2 else (1, 0)
            taken = {place: await seconds(steps[place], count) for place in order}
            found.append((taken[0], taken[1], taken[0] / taken[1]))
    ours, peer, ratio = (median(column) for column in zip(*found, strict=True))
    return ours, peer, ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[*models.BUILDERS, *exchanged.MODELS])
    parser.add_argument("--maker", default=os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON"))
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    ratios = []
    for model in options.models:
        ours, peer, ratio = trio.run(compared, model, options.maker, options.rounds)
        ratios.append(ratio)
        print(f"{model:18} {ours * 1e6:8.1f} us {peer * 1e6:8.1f} us   {ratio:.3f}", flush=True)
    print(f"geometric mean {geometric_mean(ratios):.3f}, largest {max(ratios):.3f}")


if __name__ == "__main__":
    main()
