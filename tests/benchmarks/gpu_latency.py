"""How late others are beside a GPU's work: `python -m tests.benchmarks.gpu_latency [--simulated]`.

A task sleeps 1 ms at a time beside a loop of training steps on the GPU; its lateness is told at the median
and at the 99th percentile, and beside nothing as the control of the machine. And how long it takes from the
end of a small kernel to the task that awaits it: the wall time beyond that of looking all the time.

Asked: the ticker at most 2.5 ms late at the 99th percentile; at most 60 us from event to awakened task.
"""

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe
from flowengine.runtime.streams.completion import wait_reached
from tests.benchmarks.gpu_sessions import GPU, GpuPlace, command
from tests.gpu.tables import ResultTable

LATENESS_LIMIT: Final = 2.5
AWAKE_LIMIT: Final = 60.0
_TICK_SECONDS: Final = 0.001


def training(width: int) -> tuple[fe.Graph, Any]:
    """A network of two layers, and its step."""
    g = fe.Graph()
    random = np.random.default_rng(0)
    with g.device(GPU):
        x = g.placeholder("float32", [None, width], name="x")
        first = g.variable(random.normal(0, 0.05, (width, width)).astype(np.float32), name="first")
        second = g.variable(random.normal(0, 0.05, (width, width)).astype(np.float32), name="second")
        hidden = g.ops.Relu(g.ops.MatMul(x, first.value()))
        loss = fe.reduce_mean(fe.square(g.ops.MatMul(hidden, second.value()) - x))
        return g, fe.optimizers.SGD(0.01).minimize(loss)


async def lateness(ticks: int) -> list[float]:
    """Milliseconds by which each sleep of 1 ms was late, sorted."""
    late = []
    for _ in range(ticks):
        started = perf_counter()
        await trio.sleep(_TICK_SECONDS)
        late.append((perf_counter() - started - _TICK_SECONDS) * 1e3)
    return sorted(late)


async def beside_training(place: GpuPlace, ticks: int) -> list[float]:
    """The lateness beside a loop of training steps."""
    width = place.size(2048, 16)
    g, train = training(width)
    rows = np.random.default_rng(1).normal(size=(place.size(512, 4), width)).astype(np.float32)
    async with place.session(g) as session, trio.open_nursery() as nursery:
        await session.initialize()

        @nursery.start_soon
        async def steps() -> None:
            while True:
                await session.run((), {"x:0": rows}, targets=[train])

        for _ in range(10):
            await trio.sleep(_TICK_SECONDS)
        late = await lateness(ticks)
        nursery.cancel_scope.cancel()
    return late


async def awakening(place: GpuPlace, repeats: int) -> float:
    """Microseconds from the end of work to the task that awaits it, beyond looking all the time."""
    g = fe.Graph()
    with g.device(GPU):
        g.ops.Neg(g.constant(1.0))
    awaited, looked = list[float](), list[float]()
    async with place.session(g) as session:
        device = place.device(session)
        side = place.size(4096, 8)
        x = device.copy_in(np.ones((side, side), np.float32))
        for number in range(2 * repeats):
            with device.computing():
                x = x * np.float32(1)
            events = device.unfinished()
            started = perf_counter()
            if number % 2:
                await wait_reached(device, events, uses_threads=True)
                awaited.append(perf_counter() - started)
            else:
                while not all([device.is_done(event) for event in events]):  # noqa: C419 (each is asked)
                    pass
                looked.append(perf_counter() - started)
    return (median(awaited) - median(looked)) * 1e6


async def measure(place: GpuPlace) -> ResultTable:
    """See the module."""
    table = ResultTable("Lateness beside a GPU", ("what", "median", "99 %", "asked"))
    ticks, last = place.size(5000, 20), 0.0
    for name, late in (
        ("a ticker alone, ms", await lateness(ticks)),
        ("beside training steps, ms", await beside_training(place, ticks)),
    ):
        last = late[int(0.99 * (len(late) - 1))]
        table.rows.append((name, f"{median(late):.2f}", f"{last:.2f}", f"{LATENESS_LIMIT}"))
    if last > LATENESS_LIMIT:
        table.failures.append(f"the ticker is {last:.2f} ms late beside training steps")
    awake = await awakening(place, place.size(500, 5))
    table.rows.append(("from event to awakened task, us", f"{awake:.0f}", "", f"{AWAKE_LIMIT:.0f}"))
    if awake > AWAKE_LIMIT:
        table.failures.append(f"a task is awake {awake:.0f} us after its event")
    return table


if __name__ == "__main__":
    sys.exit(command("gpu_latency", __doc__, measure))
