"""`make soak`, or `python -m tests.soak [--steps 100000] [--seed 1] [--tls]`: does a cluster stay as it was?

A client, a parameter server and two workers, each a process. Steps run side by side, and some are cancelled
at drawn moments. For the first tenth the collector is off everywhere; then it says what it finds, which is to
be nothing of ours. Resident memory at the end is to be within 5 % of that after two tenths, and as many
descriptors and threads are to be open.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import trio

import flowengine as fe
from flowengine.cluster.local import LocalCluster, local_cluster
from tests.soak import watched

#: Of the resident memory after two tenths.
GROWTH = 0.05
_SIDE_BY_SIDE = 8
_CANCELLED = 0.05
_MOMENT_SECONDS = 0.004


def graph() -> fe.Graph:
    """A step over all tasks: a product at each worker, a sum kept at the parameter server."""
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    with g.device("/job:ps/task:0"):
        total = g.ops.VariableV2(shape=[], dtype="float32", name="total")
        g.ops.Assign(total, g.constant(np.float32(0)), name="init")
    halves = []
    for task in range(2):
        with g.device(f"/job:worker/task:{task}"):
            halves.append(g.ops.Sum(g.ops.Mul(x, x), g.constant(np.array([0], np.int32))))
    with g.device("/job:ps/task:0"):
        g.ops.AssignAdd(total, g.ops.AddN(halves), name="add")
    return g


def state_of(process: int) -> dict[str, int]:
    """Resident bytes, open descriptors and threads of a process."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines() if ":" in line
    )
    return {
        "resident": int(fields["VmRSS"].split()[0]) * 1024,
        "descriptors": len(os.listdir(f"/proc/{process}/fd")),
        "threads": int(fields["Threads"]),
    }


class Soak:
    """The steps, drawn from a seed."""

    def __init__(self, session: fe.Session, seed: int) -> None:
        self._session = session
        self._random = random.Random(seed)
        self._feed = np.ones(1000, np.float32)
        self.cancelled = 0

    async def run(self, steps: int) -> None:
        """So many more, several at a time; returns when all have ended."""
        left = steps

        async def one_after_another() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                with trio.CancelScope() as scope:
                    if self._random.random() < _CANCELLED:
                        scope.deadline = trio.current_time() + self._random.random() * _MOMENT_SECONDS
                    await self._session.run("add:0", {"x:0": self._feed})
                self.cancelled += scope.cancelled_caught

        async with trio.open_nursery() as nursery:
            for _ in range(_SIDE_BY_SIDE):
                nursery.start_soon(one_after_another)


async def soak(steps: int, seed: int, folder: Path, tls: bool = False) -> bool:
    """Run it, under TLS if asked, and say what is left; whether all is as it was."""
    options = ["--import", "tests.soak.watched", "--log-level", "warning"]
    async with local_cluster({"ps": 1, "worker": 2}, options=options, tls=tls) as cluster:
        processes = {name: process.pid for name, process in cluster.processes.items()}
        everybody = {"client": os.getpid(), **processes}
        os.environ.update(cluster.environment())
        async with fe.Session(graph(), target=cluster.target("worker", 0)) as session:
            await session.run([], targets=["init"])
            runs = Soak(session, seed)
            await runs.run(500)
            garbage = await _without_collector(runs, steps // 10, cluster, folder)
            await runs.run(steps // 10)
            before = {name: state_of(process) for name, process in everybody.items()}
            began = perf_counter()
            await runs.run(steps - 2 * (steps // 10))
            seconds = perf_counter() - began
            await trio.sleep(1)
            after = {name: state_of(process) for name, process in everybody.items()}
    is_well = True
    for name in everybody:
        growth = after[name]["resident"] / before[name]["resident"] - 1
        same = all(before[name][each] == after[name][each] for each in ("descriptors", "threads"))
        is_well = is_well and growth <= GROWTH and same and not garbage[name]
        first, last = before[name], after[name]
        print(
            f"{name}: resident {first['resident'] >> 20} to {last['resident'] >> 20} MiB ({growth:+.1%}), "
            f"descriptors {first['descriptors']} to {last['descriptors']}, "
            f"threads {first['threads']} to {last['threads']}, garbage {garbage[name] or 'none'}"
        )
    how = " under TLS" if tls else ""
    print(f"{steps} steps{how}, {runs.cancelled} cancelled, seed {seed}; eight tenths took {seconds:.0f} s")
    return is_well


async def _without_collector(
    runs: Soak, steps: int, cluster: LocalCluster, folder: Path
) -> dict[str, dict[str, int]]:
    """Return the garbage that the collector finds in each process after steps without it."""
    watched.turn_off()
    for process in cluster.processes.values():
        process.send_signal(signal.SIGUSR1)
    await trio.sleep(1)
    await runs.run(steps)
    await trio.sleep(1)
    garbage = {"client": watched.found()}
    for name, process in cluster.processes.items():
        process.send_signal(signal.SIGUSR2)
        said = folder / str(process.pid)
        with trio.fail_after(60):
            while not said.exists():  # noqa: ASYNC110 - another process writes it
                await trio.sleep(0.05)
        garbage[name] = json.loads(said.read_text())
    return garbage


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tls", action="store_true", help="the tasks speak under TLS")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flowengine-soak-") as folder:
        os.environ["SOAK_FOLDER"] = folder
        os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
        return 0 if trio.run(soak, arguments.steps, arguments.seed, Path(folder), arguments.tls) else 1


if __name__ == "__main__":
    sys.exit(main())
