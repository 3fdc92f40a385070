"""Copies of a session's device: `python -m tests.benchmarks.gpu_transfers [--simulated]`.

Feeds and fetches of 1 MB and more as a step has them, beside copies in and out by the device alone, in GB/s;
and whether a copy in goes on beside kernels: the time of both at once, of that of one after the other, and as
the events around them say. The
driver's bare rates are in the part "transfers" of `python -m tests.gpu`.

Asked: the device's copies at 0.9 of CuPy's bare ones.
"""

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe
from flowengine.devices.launch_record import LaunchRecord
from tests.benchmarks.gpu_sessions import GPU, GpuPlace, command
from tests.gpu.tables import ResultTable

SHARE_LIMIT: Final = 0.9


def bare_seconds(cupy: Any, size: int, repeats: int) -> tuple[float, float]:
    """(in, out): seconds of CuPy's own copies from and to pinned memory."""
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
    target, stream = cupy.empty(size, np.uint8), cupy.cuda.Stream(non_blocking=True)
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for column, copy in zip(taken, (_set, _get), strict=True):
            started = perf_counter()
            copy(target, pinned, stream)
            stream.synchronize()
            column.append(perf_counter() - started)
    return median(taken[0]), median(taken[1])


def _set(target: Any, pinned: Any, stream: Any) -> None:
    target.set(pinned, stream=stream)


def _get(target: Any, pinned: Any, stream: Any) -> None:
    target.get(stream=stream, out=pinned, blocking=False)


def device_seconds(device: Any, size: int, repeats: int) -> tuple[float, float]:
    """(in, out): seconds of copies by the device, from and to arrays of NumPy's."""
    value = np.zeros(size, np.uint8)
    into, out = list[float](), list[float]()
    for _ in range(repeats):
        started = perf_counter()
        there = device.copy_in(value)
        device.synchronize()
        into.append(perf_counter() - started)
        started = perf_counter()
        device.copy_out(there)
        out.append(perf_counter() - started)
    return median(into), median(out)


def overlap(device: Any, size: int, repeats: int) -> float:
    """The time of copies in beside kernels, of that of the two after one another."""
    value = np.zeros(size, np.uint8)
    x = device.copy_in(np.ones(size // 4, np.float32))

    def work() -> None:
        with device.computing():
            for _ in range(20):
                device.xp.tanh(x)

    def both(apart: bool) -> float:
        started = perf_counter()
        work()
        if apart:
            device.synchronize()
        device.copy_in(value)
        device.synchronize()
        return perf_counter() - started

    both(False)
    return median(both(False) for _ in range(repeats)) / median(both(True) for _ in range(repeats))


async def traced_overlap(place: GpuPlace, size: int) -> float:
    """The share of the copies in of two steps at once that goes on beside kernels, by the card's events."""
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [size // 4], name="x")
        y = x
        for _ in range(20):
            y = g.ops.Tanh(y)
        last = fe.reduce_sum(y)
    value, launches = np.zeros(size // 4, np.float32), list[LaunchRecord]()

    async def steps() -> None:
        for _ in range(5):
            await session.run(last, {x: value}, run_metadata=fe.RunMetadata(launches=launches))

    async with place.session(g) as session, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(steps)
    return beside(launches)


def beside(launches: list[LaunchRecord]) -> float:
    """The share of the time of copies in during which something else runs."""
    copies = [(r.began, r.ended) for r in launches if r.stream == "copy in"]
    work = sorted((r.began, r.ended) for r in launches if r.stream == "compute")
    whole = sum(end - begin for begin, end in copies)
    shared, free = 0.0, -float("inf")
    for begin, end in work:
        begin = max(begin, free)
        shared += sum(max(0.0, min(end, stop) - max(begin, start)) for start, stop in copies)
        free = max(free, end)
    return shared / whole if whole else 0.0


async def step_seconds(place: GpuPlace, size: int, repeats: int) -> float:
    """Seconds of a step that feeds so much and fetches it."""
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [size // 4], name="x")
        y = g.ops.Neg(x)
    value, taken = np.zeros(size // 4, np.float32), []
    async with place.session(g) as session:
        for _ in range(3 + repeats):
            started = perf_counter()
            await session.run(y, {x: value})
            taken.append(perf_counter() - started)
    return median(taken[3:])


async def measure(place: GpuPlace) -> ResultTable:
    """See the module."""
    table = ResultTable("Copies by sessions", ("bytes", "in, GB/s", "out, GB/s", "feed and fetch", "bare"))
    repeats = place.size(9, 2)
    g = fe.Graph()
    with g.device(GPU):
        g.ops.Neg(g.constant(1.0))
    async with place.session(g) as session:
        device = place.device(session)
        size = place.size(1 << 20, 1 << 12)
        while size <= place.size(1 << 29, 1 << 15):
            into, out = device_seconds(device, size, repeats)
            step = await step_seconds(place, size, repeats)
            bare = bare_seconds(device.xp, size, repeats) if place.is_card else (into, out)
            rates = [size / taken / 1e9 for taken in (into, out, step / 2, *bare)]
            told = [f"{rate:.2f}" for rate in rates]
            table.rows.append((f"{size:,}", *told[:3], f"{told[3]} and {told[4]}"))
            for way, ours, theirs in (("in", into, bare[0]), ("out", out, bare[1])):
                if ours * SHARE_LIMIT > theirs:
                    table.failures.append(f"{size:,} bytes {way} take {ours / theirs:.2f} of CuPy's own")
            size *= 8
        share = overlap(device, place.size(1 << 28, 1 << 12), repeats)
        table.rows.append(("a copy in beside kernels, of both in turn", f"{share:.2f}", "", "", ""))
    shared = await traced_overlap(place, place.size(1 << 28, 1 << 12))
    table.rows.append(
        ("share of copies in beside kernels, of two steps at once, traced", f"{shared:.2f}", "", "", "")
    )
    return table


if __name__ == "__main__":
    sys.exit(command("gpu_transfers", __doc__, measure))
