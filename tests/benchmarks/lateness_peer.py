"""How late a host's sleep of 2 ms ends beside steps, in one process: see `lateness.py`.

    PYTHON tests/benchmarks/lateness_peer.py '{"folder": ..., "load": ..., "seconds": 30, "tasks": 200}'

    alone     the host's task and no steps
    free      so many tasks that make one step after another, each a call of `Session.run`
    limited   the same, each step behind one `trio.CapacityLimiter(1)`
    null      1,000 steps of one small node by the tasks together, then a pause, again and again

One JSON document is printed: lateness in seconds, steps a second, processor seconds of a step, how much of
the process's time was the event loop's, what one kernel takes, the files of the FlowEngine that was imported.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe

SLEEP_SECONDS: Final = 0.002
#: Steps in a burst of null steps, and the pause after it.
BURST: Final = 1_000
PAUSE_SECONDS: Final = 0.01
#: How long the load runs before anything is counted: what is under way at both ends is then alike.
WARM_SECONDS: Final = 2.0
SETTLING_STEPS: Final = 50


class Sleeps:
    """The host's own task: how late each of its sleeps ended while it was counted."""

    def __init__(self) -> None:
        self.counting = False
        self.late: list[float] = []

    async def run(self) -> None:
        """Sleep until cancelled."""
        while True:
            asleep = time.perf_counter()
            await trio.sleep(SLEEP_SECONDS)
            if self.counting:
                self.late.append(time.perf_counter() - asleep - SLEEP_SECONDS)


class Load:
    """Tasks that make steps, and how many they have made."""

    def __init__(self, step: Callable[[], Awaitable[Any]], tasks: int) -> None:
        self.steps = 0
        self._step = step
        self._tasks = tasks
        self._limiter = trio.CapacityLimiter(1)

    async def alone(self) -> None:
        """No load."""
        await trio.sleep_forever()

    async def free(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(self._tasks):
                nursery.start_soon(self._many)

    async def limited(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(self._tasks):
                nursery.start_soon(self._many_limited)

    async def null(self) -> None:
        while True:
            async with trio.open_nursery() as nursery:
                for _ in range(self._tasks):
                    nursery.start_soon(self._some, BURST // self._tasks)
            await trio.sleep(PAUSE_SECONDS)

    async def _many(self) -> None:
        while True:
            await self._step()
            self.steps += 1

    async def _many_limited(self) -> None:
        while True:
            async with self._limiter:
                await self._step()
            self.steps += 1

    async def _some(self, count: int) -> None:
        for _ in range(count):
            await self._step()
            self.steps += 1


async def least_seconds(step: Callable[[], Awaitable[Any]]) -> float:
    """Of some steps by themselves, after they have settled."""
    taken = []
    for _ in range(SETTLING_STEPS):
        started = time.perf_counter()
        await step()
        taken.append(time.perf_counter() - started)
    return min(taken)


async def main(arguments: dict[str, Any]) -> None:
    folder = Path(arguments["folder"])
    graph = fe.Graph.from_graph_def(await trio.Path(folder, "graph.pb").read_bytes())
    feeds = {"x:0": np.load(folder / "x.npy"), "number:0": np.float32(2)}
    async with fe.Session(graph) as session:
        fetched = {name: [f"{name}:0"] for name in ("y", "kernel", "null")}

        def step_of(name: str) -> Callable[[], Awaitable[Any]]:
            return lambda: session.run(fetched[name], feeds)

        least = {name: await least_seconds(step_of(name)) for name in fetched}
        load = Load(step_of("null" if arguments["load"] == "null" else "y"), arguments["tasks"])
        sleeps = Sleeps()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleeps.run)
            nursery.start_soon(getattr(load, arguments["load"]))
            await trio.sleep(WARM_SECONDS)
            sleeps.counting, steps = True, load.steps
            started, busy, own = time.perf_counter(), time.process_time(), time.thread_time()
            await trio.sleep(arguments["seconds"])
            sleeps.counting, steps = False, load.steps - steps
            wall, busy, own = (
                time.perf_counter() - started,
                time.process_time() - busy,
                time.thread_time() - own,
            )
            nursery.cancel_scope.cancel()
    loaded = [module for name, module in sys.modules.items() if name.partition(".")[0] == "flowengine"]
    document = {
        "late": {str(part): float(np.quantile(sleeps.late, part)) for part in (0.5, 0.99, 1.0)},
        "steps_per_second": steps / wall,
        "processor_per_step": busy / steps if steps else 0.0,
        "inline": own / busy,
        "least": least,
        "files": [module.__file__ for module in loaded if module.__file__],
    }
    print(json.dumps(document))


if __name__ == "__main__":
    trio.run(main, json.loads(sys.argv[1]))
