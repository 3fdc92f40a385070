"""Times a workload in this engine: see `engines.py` for what is said on stdin and stdout.

The whole program is one trio run, as a host program is; reading stdin blocks it, which harms nobody here.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import trio

import flowengine as fe


def read_file(folder: str, name: str) -> bytes:
    return Path(folder, name).read_bytes()


def read(value: Any, folder: str) -> Any:
    if "bytes_b64" in value:
        strings = np.empty(len(value["bytes_b64"]), dtype=object)
        strings[:] = [base64.b64decode(s) for s in value["bytes_b64"]]
        return strings.reshape(value["shape"])
    return np.load(os.path.join(folder, value["npy"]))


def first_number(fetched: Any) -> float:
    """Return the first fetched tensor as one number: its elements weighted by their places."""
    flat = np.asarray(fetched[0], np.float64).reshape(-1)
    scale = np.abs(flat).mean() if flat.size > 1 else 1.0
    return float(flat @ np.cos(np.arange(flat.size)) / scale)


class Prepared:
    """A session with the workload's graph, its setup done."""

    loading = first = processor = 0.0
    step: Callable[[], Awaitable[Any]]

    @classmethod
    async def make(cls, folder: str) -> Prepared:
        self = cls()
        work = json.loads(read_file(folder, "workload.json"))
        os.chdir(folder)
        started, busy = time.perf_counter(), time.process_time()
        graph = fe.Graph.from_graph_def(read_file(folder, work["graph"]))
        self.loading = time.perf_counter() - started
        self.processor = time.process_time() - busy
        session = fe.Session(graph)
        for run in work["setup"]:
            feeds = {name: read(value, folder) for name, value in run["feeds"].items()}
            await session.run(run["fetches"], feeds, targets=run["targets"])
        run = work["run"]
        feeds = {name: read(value, folder) for name, value in run["feeds"].items()}
        fetches, targets = run["fetches"], run["targets"]
        if work["callable"]:
            call = session.make_callable(fetches, list(feeds), targets)
            values = list(feeds.values())
            self.step = lambda: call(*values)
        else:
            self.step = lambda: session.run(fetches, feeds, targets=targets)
        started, busy = time.perf_counter(), time.process_time()
        await self.step()
        self.first = time.perf_counter() - started
        self.processor += time.process_time() - busy
        return self


async def times(step: Callable[[], Awaitable[Any]], repeats: int) -> list[float]:
    """Seconds of each of so many steps."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        await step()
        seconds.append(time.perf_counter() - started)
    return seconds


async def chunks(step: Callable[[], Awaitable[Any]], count: int, steps: int) -> list[tuple[float, float]]:
    """Wall and processor seconds of a step, each the mean of a chunk of steps."""
    found = []
    for _ in range(count):
        started, busy = time.perf_counter(), time.process_time()
        for _ in range(steps):
            await step()
        done, worked = time.perf_counter(), time.process_time()
        found.append(((done - started) / steps, (worked - busy) / steps))
    return found


def plans(folder: str) -> Callable[[int], list[tuple[float, float]]]:
    """A function that makes so many plans of the workload's graph, each in a session of its own, and gives
    the wall and processor seconds of each."""
    run = json.loads(read_file(folder, "workload.json"))["run"]
    graph = fe.Graph.from_graph_def(read_file(folder, "workload.pb"))

    def make(count: int) -> list[tuple[float, float]]:
        found = []
        for _ in range(count):
            gc.collect()
            session = fe.Session(graph)
            started, busy = time.perf_counter(), time.process_time()
            session.make_callable(run["fetches"], list(run["feeds"]))
            found.append((time.perf_counter() - started, time.process_time() - busy))
        return found

    return make


def own_files() -> list[str]:
    """The file of each module of FlowEngine that this process has imported."""
    own = [module for name, module in sys.modules.items() if name.partition(".")[0] == "flowengine"]
    return [module.__file__ for module in own if module.__file__]


async def load(folder: str) -> tuple[Prepared | None, dict[str, Any]]:
    """A prepared session, or what went wrong."""
    try:
        prepared = await Prepared.make(folder)
    except Exception as error:
        return None, {"error": f"{type(error).__name__}: {error}"}
    return prepared, {"load": prepared.loading, "first": prepared.first, "processor": prepared.processor}


async def main() -> None:
    prepared: Prepared | None = None
    planning: Callable[[int], list[tuple[float, float]]] | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        what = asked["what"]
        if what == "version":
            answer: Any = f"FlowEngine {fe.__version__}"
        elif what == "files":
            answer = own_files()
        elif what == "open":
            planning, answer = plans(asked["folder"]), None
        elif what == "plans":
            assert planning is not None, "a workload is opened first"
            answer = planning(asked["count"])
        elif what == "load":
            prepared, answer = await load(asked["folder"])
        else:
            assert prepared is not None, "a workload is loaded first"
            if what == "value":
                answer = first_number(await prepared.step())
            elif what == "chunks":
                answer = await chunks(prepared.step, asked["count"], asked["steps"])
            else:
                answer = await times(prepared.step, asked["repeats"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    trio.run(main)
