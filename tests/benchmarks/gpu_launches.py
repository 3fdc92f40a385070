"""Host time of a kernel that a session launches: `python -m tests.benchmarks.gpu_launches [--simulated]`.

A step of 1,000 products of 32 x 32, each of the result before, which nothing can join, and one of 1,000
elementwise kernels: CPU microseconds of the process a kernel, cold and once plans are hot. And a step of 20
kernels with a feed and a fetch: wall microseconds over those of its kernels alone.

Asked: cold at most 3.0 us a kernel, hot at most 1.0; the small step at most 80 us over its kernels' time.

On paper: a launch is 2 us of the driver's, the rest is ours.
"""

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np

import flowengine as fe
from tests.benchmarks.gpu_sessions import GPU, GpuPlace, command
from tests.gpu.tables import ResultTable

COLD_LIMIT: Final = 3.0
HOT_LIMIT: Final = 1.0
STEP_LIMIT: Final = 80.0


def chain(length: int, *, products: bool) -> tuple[fe.Graph, Any]:
    """A graph whose kernels each want the result before."""
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [32, 32], name="x")
        y = x
        for _ in range(length):
            y = g.ops.MatMul(y, x) if products else g.ops.Tanh(y)
        last = fe.reduce_sum(y)
    return g, last


async def launch_times(place: GpuPlace, length: int, repeats: int, *, products: bool) -> tuple[float, float]:
    """(cold, hot) microseconds of the process's CPU a kernel."""
    g, last = chain(length, products=products)
    value = np.eye(32, dtype=np.float32)
    taken = []
    async with place.session(g) as session:
        for _ in range(2 + repeats):
            before = process_time()
            await session.run(last, {"x:0": value})
            taken.append((process_time() - before) / length * 1e6)
    return taken[1], median(taken[-max(repeats // 2, 1) :])


async def small_step(place: GpuPlace, repeats: int) -> tuple[float, float]:
    """(wall microseconds of a step of 20 kernels with feed and fetch, the same without the 20 kernels)."""
    found = []
    for length in (20, 1):
        g, last = chain(length, products=False)
        taken = []
        async with place.session(g) as session:
            for _ in range(6 + repeats):
                started = perf_counter()
                await session.run(last, {"x:0": np.zeros((32, 32), np.float32)})
                taken.append((perf_counter() - started) * 1e6)
        found.append(median(taken[6:]))
    return found[0], found[1]


async def measure(place: GpuPlace) -> ResultTable:
    """See the module."""
    table = ResultTable("Launches by sessions", ("what", "us", "asked"))
    length, repeats = place.size(1000, 20), place.size(50, 4)
    for name, products in (("a product of 32 x 32", True), ("an elementwise kernel", False)):
        cold, hot = await launch_times(place, length, repeats, products=products)
        for tier, found, limit in (("cold", cold, COLD_LIMIT), ("hot", hot, HOT_LIMIT)):
            table.rows.append((f"{name}, {tier}", f"{found:.2f}", f"{limit}"))
            if found > limit:
                table.failures.append(f"{name} takes the host {found:.2f} us, {tier}")
    whole, least = await small_step(place, place.size(500, 5))
    table.rows.append(("a step of 20 kernels, with feed and fetch", f"{whole:.0f}", ""))
    table.rows.append(("a step of one", f"{least:.0f}", f"{STEP_LIMIT:.0f}"))
    if least > STEP_LIMIT:
        table.failures.append(f"a step of one kernel takes {least:.0f} us")
    return table


if __name__ == "__main__":
    sys.exit(command("gpu_launches", __doc__, measure))
