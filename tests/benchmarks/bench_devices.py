"""Two heavy branches on two CPU devices beside the same on one: at most 0.65 of the time on two idle cores.

    python -m tests.benchmarks.bench_devices [--rounds 200]

A branch is a chain of elementwise kernels on 60,000 numbers, each too short for a thread of its own: one
device computes the branches one after another, two devices compute them at the same time. The two sessions
take turns, and the least of each counts, since other work on the machine only ever makes a step longer.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import trio

import flowengine as fe

#: What two devices may take of the time of one, on two cores that do nothing else.
EXPECTED = 0.65
LENGTH, SIZE = 80, 60_000


def branches() -> tuple[fe.Graph, list[Any]]:
    """A graph of two branches, one for each device."""
    g = fe.Graph()
    x = g.placeholder("float32", [SIZE], name="x")
    ends = []
    for number in range(2):
        with g.device(f"/cpu:{number}"):
            value = x
            for _ in range(LENGTH):
                value = g.ops.Tanh(value)
            ends.append(g.ops.Sum(value, g.constant([0])))
    return g, ends


async def measure(rounds: int) -> dict[int, float]:
    """{number of devices: least seconds of a step}."""
    value = np.linspace(-1, 1, SIZE, dtype=np.float32)
    least = {1: float("inf"), 2: float("inf")}
    g, ends = branches()
    one = fe.Session(g, config=fe.Config(allow_soft_placement=True))
    two = fe.Session(g, config=fe.Config(device_count={"CPU": 2}))
    async with one, two:
        for number in range(rounds + 20):  # the first ones make the plans hot
            for devices, session in ((1, one), (2, two)):
                started = time.perf_counter()
                await session.run(ends, {"x:0": value})
                if number >= 20:
                    least[devices] = min(least[devices], time.perf_counter() - started)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    least = trio.run(measure, parser.parse_args().rounds)
    ratio = least[2] / least[1]
    print(
        f"one device {least[1] * 1e3:.2f} ms, two {least[2] * 1e3:.2f} ms: "
        f"ratio {ratio:.2f}, expected {EXPECTED}"
    )


if __name__ == "__main__":
    main()
