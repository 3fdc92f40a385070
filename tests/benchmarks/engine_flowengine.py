"""Times a workload in this engine: see `engines.py` for what is said on stdin and stdout.

The whole program is one trio run, as a host program is; reading stdin blocks it, which harms nobody here.
"""

from __future__ import annotations

import base64
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
    """What was fetched first as one number: its elements weighted by their places."""
    flat = np.asarray(fetched[0], np.float64).reshape(-1)
    scale = np.abs(flat).mean() if flat.size > 1 else 1.0
    return float(flat @ np.cos(np.arange(flat.size)) / scale)


class Prepared:
    """A session with the workload's graph, its setup done."""

    loading = first = 0.0
    step: Callable[[], Awaitable[Any]]

    @classmethod
    async def make(cls, folder: str) -> Prepared:
        self = cls()
        work = json.loads(read_file(folder, "workload.json"))
        os.chdir(folder)
        started = time.perf_counter()
        graph = fe.Graph.from_graph_def(read_file(folder, work["graph"]))
        self.loading = time.perf_counter() - started
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
        started = time.perf_counter()
        await self.step()
        self.first = time.perf_counter() - started
        return self


async def main() -> None:
    prepared: Prepared | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["what"] == "version":
            answer: Any = f"FlowEngine {fe.__version__}"
        elif asked["what"] == "load":
            try:
                prepared = await Prepared.make(asked["folder"])
                answer = {"load": prepared.loading, "first": prepared.first}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
        elif asked["what"] == "value":
            assert prepared is not None
            answer = first_number(await prepared.step())
        else:
            assert prepared is not None
            step = prepared.step
            answer = []
            for _ in range(asked["repeats"]):
                started = time.perf_counter()
                await step()
                answer.append(time.perf_counter() - started)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    trio.run(main)
