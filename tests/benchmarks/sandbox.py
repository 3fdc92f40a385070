"""The cost of a sandbox: `python -m tests.benchmarks.sandbox [--rounds 5]`.

A null step beside one of a `flowengine worker` on loopback; a step with 100 MB in and out beside a session of
this process and a copy each way; the time until a session has run its first step beside `flowengine run`.
Rounds of both sides alternate, and medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from time import perf_counter

import numpy as np
import trio

import flowengine as fe
from flowengine.cluster.local import local_cluster

_STEPS = 300
_ELEMENTS = 25_000_000


def _graph() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    g.ops.Add(x, 1.0, name="y")
    g.ops.NoOp(name="nothing")
    return g


def _bytes() -> fe.GraphBytes:
    return fe.GraphBytes(_graph().to_graph_def().SerializeToString())


def _config(*, spare: bool = False) -> fe.Config:
    return fe.Config.sandbox(memory_bytes=1 << 30, seconds=60, spare=spare)


async def _seconds(doing: Callable[[], Awaitable[object]], times: int = 1) -> float:
    began = perf_counter()
    for _ in range(times):
        await doing()
    return (perf_counter() - began) / times


async def _median_step(doing: Callable[[], Awaitable[object]]) -> float:
    """Of many steps, so that those count little in which the machine did something else."""
    return statistics.median([await _seconds(doing) for _ in range(_STEPS)])


async def null_steps(rounds: int) -> tuple[float, float]:
    """Medians, in seconds, of a step of nothing: in a box, and at a worker."""
    boxed, worked = [], []
    async with local_cluster({"worker": 1}, options=["--log-level", "error"]) as cluster:
        target = cluster.target("worker", 0)
        async with (
            fe.Session(_bytes(), config=_config()) as box,
            fe.Session(_graph(), target=target) as worker,
        ):
            for _ in range(rounds):
                boxed.append(await _median_step(lambda: box.run(["nothing"])))
                worked.append(await _median_step(lambda: worker.run(["nothing"])))
    return statistics.median(boxed), statistics.median(worked)


async def large_steps(rounds: int) -> tuple[float, float]:
    """Medians of a step with 100 MB in and out: in a box, and here with a copy each way besides."""
    x = np.ones(_ELEMENTS, np.float32)
    boxed, near = [], []
    async with fe.Session(_bytes(), config=_config()) as box, fe.Session(_graph()) as here:
        far, own = box.make_callable("y", ["x"]), here.make_callable("y", ["x"])

        async def copied() -> None:
            (await own(x.copy())).copy()

        for _ in range(rounds):
            boxed.append(await _seconds(lambda: far(x), 3))
            near.append(await _seconds(copied, 3))
    return statistics.median(boxed), statistics.median(near)


async def first_steps(rounds: int) -> tuple[float, float, float]:
    """Medians of the time to a first step: in a box, where a spare is there, and by `flowengine run`."""
    boxed, spared, ran = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        path = trio.Path(folder, "graph.pb")
        await path.write_bytes(_bytes().data)
        command = [sys.executable, "-m", "flowengine", "run", str(path), "--feed", "x=[1]", "--fetch", "y"]
        for _ in range(rounds):

            async def session() -> None:
                async with fe.Session(_bytes(), config=_config()) as box:
                    await box.run("y:0", {"x:0": [1]})

            boxed.append(await _seconds(session))
            began = perf_counter()
            await trio.run_process(command, stdout=subprocess.DEVNULL)
            ran.append(perf_counter() - began)
            async with fe.Session(_bytes(), config=_config(spare=True)) as box:
                await box.run("y:0", {"x:0": [1]})
                await trio.sleep(3.0)
                box._remote._process.kill()
                with trio.move_on_after(1):
                    await box._remote._process.why_ended()
                spared.append(await _seconds(lambda: box.run("y:0", {"x:0": [1]})))
    return statistics.median(boxed), statistics.median(spared), statistics.median(ran)


async def main(rounds: int) -> None:
    """Measure all and print a line each."""
    a, b = await null_steps(rounds)
    print(f"null step: {a * 1e6:.0f} us, at a worker {b * 1e6:.0f} us: {a / b:.2f} (1.20)")
    a, b = await large_steps(rounds)
    print(
        f"100 MB in and out: {a * 1e3:.0f} ms, here and a copy each way {b * 1e3:.0f} ms: {a / b:.2f} (1.15)"
    )
    a, c, b = await first_steps(rounds)
    print(f"first step: {a:.2f} s, with a spare {c:.3f} s, flowengine run {b:.2f} s: {a / b:.2f} (1.10)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    trio.run(main, parser.parse_args().rounds)
