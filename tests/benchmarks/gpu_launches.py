"""Host time of a kernel that a session launches: `python -m tests.benchmarks.gpu_launches [--simulated]`.

A step of 1,000 products of 32 x 32, each of the result before, which nothing can join, and one of 1,000
elementwise kernels: CPU microseconds of the process a kernel, cold and once plans are hot. And a step of 20
kernels with a feed and a fetch: wall microseconds over those of its kernels alone.

Kernels are counted by the record of a step's launches, so what is joined counts once. Beside them, in
processes of their own, PyTorch: eager for the products, `torch.compile` for the chain (`gpu_torch.py`).

Asked: a step of products takes at most 3.0 of PyTorch's time while its plan is cold and 1.0 once it is hot,
a hot chain 1.0 of `torch.compile`'s; the small step at most 80 us over its kernels' time.

On paper: a launch is 2 us of the driver's, on both sides, the rest is the engine's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

import numpy as np

import flowengine as fe
from flowengine.devices.launch_record import LaunchRecord
from tests.benchmarks.gpu_sessions import GPU, GpuPlace, command
from tests.gpu.tables import ResultTable

#: Of PyTorch's time.
COLD_LIMIT: Final = 3.0
HOT_LIMIT: Final = 1.0
STEP_LIMIT: Final = 80.0
HEADINGS: Final = ("what", "us a kernel", "kernels", "us a step", "PyTorch, us a step", "ratio", "asked")
_COPIES: Final = ("copy in", "copy out")


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


class LaunchTimes(NamedTuple):
    """CPU microseconds of a step, and how many kernels it launched, when its plan is cold and hot."""

    cold: float
    cold_kernels: int
    hot: float
    hot_kernels: int


async def launch_times(place: GpuPlace, length: int, repeats: int, *, products: bool) -> LaunchTimes:
    """Of a chain of so many nodes."""
    g, last = chain(length, products=products)
    value = np.eye(32, dtype=np.float32)
    taken, kernels = list[float](), list[int]()
    async with place.session(g) as session:
        # The first step makes the plan, the one before the last half tells how many kernels there are then.
        for number in range(3 + repeats):
            launches: list[LaunchRecord] | None = [] if number in (0, 2 + repeats) else None
            before = process_time()
            await session.run(last, {"x:0": value}, run_metadata=fe.RunMetadata(launches=launches))
            if launches is None:
                taken.append((process_time() - before) * 1e6)
            else:
                kernels.append(sum(record.what not in _COPIES for record in launches))
    return LaunchTimes(taken[0], kernels[0], median(taken[-max(repeats // 2, 1) :]), kernels[1])


def of_torch(length: int, *, products: bool) -> float | None:
    """Microseconds of PyTorch's CPU for the same; None where it is not here."""
    words = [sys.executable, "-m", "tests.benchmarks.gpu_torch", "--launches", str(length)]
    done = subprocess.run([*words, *([] if products else ["--compile"])], capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    return float(json.loads(lines[-1])["us"]) if lines and not done.returncode else None


async def small_step(place: GpuPlace, repeats: int) -> tuple[float, float]:
    """Wall microseconds of a step of 20 products with feed and fetch, and its kernels' own by the card."""
    g, last = chain(20, products=True)
    value, taken, launches = np.eye(32, dtype=np.float32), list[float](), list[LaunchRecord]()
    async with place.session(g) as session:
        for _ in range(6 + repeats):
            started = perf_counter()
            await session.run(last, {"x:0": value})
            taken.append((perf_counter() - started) * 1e6)
        await session.run(last, {"x:0": value}, run_metadata=fe.RunMetadata(launches=launches))
    kernels = sum(record.ended - record.began for record in launches if record.what not in _COPIES)
    return median(taken[6:]), kernels * 1e6


def entered(table: ResultTable, name: str, found: LaunchTimes, theirs: float | None, products: bool) -> None:
    """Enter a chain cold and hot, and what is not kept of it.

    theirs   microseconds of PyTorch's for the whole chain; None: it is not here, and nothing is compared
    """
    for tier, taken, kernels, limit in (
        ("cold", found.cold, found.cold_kernels, COLD_LIMIT if products else None),
        ("hot", found.hot, found.hot_kernels, HOT_LIMIT),
    ):
        ratio = taken / theirs if theirs else None
        table.rows.append(
            (
                f"{name}, {tier}",
                f"{taken / max(kernels, 1):.2f}",
                f"{kernels}",
                f"{taken:.0f}",
                "not here" if theirs is None else f"{theirs:.0f}",
                "" if ratio is None else f"{ratio:.2f}",
                "" if limit is None else f"{limit}",
            )
        )
        if ratio is not None and limit is not None and ratio > limit:
            table.failures.append(f"{name} takes the host {ratio:.2f} of PyTorch's time, {tier}")


async def measure(place: GpuPlace) -> ResultTable:
    """See the module."""
    table = ResultTable("Launches by sessions", HEADINGS)
    length, repeats = place.size(1000, 20), place.size(50, 4)
    for name, products in (("a product of 32 x 32", True), ("an elementwise kernel", False)):
        found = await launch_times(place, length, repeats, products=products)
        entered(table, name, found, of_torch(length, products=products) if place.is_card else None, products)
    whole, kernels_alone = await small_step(place, place.size(500, 5))
    over = whole - kernels_alone
    table.rows.append(("a step of 20 kernels, with feed and fetch", "", "20", f"{whole:.0f}", "", "", ""))
    table.rows.append(
        ("the same over its kernels' time", "", "", f"{over:.0f}", "", "", f"{STEP_LIMIT:.0f} us")
    )
    if over > STEP_LIMIT:
        table.failures.append(f"a step of 20 kernels takes {over:.0f} us over their time")
    return table


if __name__ == "__main__":
    sys.exit(command("gpu_launches", __doc__, measure))
