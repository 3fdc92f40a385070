"""Recorded cases over the tasks of a cluster, every node placed on a task by seed.

python -m tests.tools.clusters [--tasks 3] [--seed 0] [--suite math,nn] [--json FILE] PATH...
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import trio

import flowengine as fe
from flowengine.cluster.console import Console, open_console
from flowengine.cluster.local import LocalCluster, local_cluster
from flowengine.cluster.spec import device_prefix
from flowengine.core.checksums.hashing import fingerprint64
from flowengine.passes.place.colocate import colocate
from tests.tools.recorded import find_cases
from tests.tools.replay import ReplayOutcome, Result, judge, play, prepared_case


def scatter(graph: fe.Graph, devices: Sequence[str], seed: int) -> fe.Graph:
    """The same graph with a device asked for at every node, by seed; what must be together stays so."""
    groups = colocate(graph)
    for a, b, _ in groups.preferred:
        groups.join(a, b)
    first: dict[int, str] = {}
    graph_def = graph.to_graph_def()
    for index, name in enumerate(groups.names):
        anchor = first.setdefault(groups.find(index), name)
        node = graph_def.node[index]
        assert node.name == name, "nodes are written in their order"
        node.device = devices[fingerprint64(f"{seed} {anchor}".encode()) % len(devices)]
    return fe.Graph.from_graph_def(graph_def)


class TaskPlayer:
    """Plays recorded cases over the tasks of a running cluster, one after another."""

    def __init__(self, cluster: LocalCluster, console: Console, folder: str, *, seed: int = 0) -> None:
        """
        folder   the working directory of the tasks, where graphs look for files with relative names; it is
                 emptied after each case that needs some
        """
        self._cluster = cluster
        self._console = console
        self._folder = folder
        self._seed = seed
        self._tasks = list(cluster.spec)
        self._devices = [
            f"{device_prefix(job, number)}/device:CPU:0"
            for job, numbers in cluster.spec.jobs.items()
            for number in numbers
        ]
        job = next(iter(cluster.spec.jobs))
        self._target = cluster.target(job, 0)

    def session(self, graph: fe.Graph) -> fe.Session:
        """A session at the first task, on the graph with its nodes scattered."""
        return fe.Session(scatter(graph, self._devices, self._seed), target=self._target)

    async def play(self, address: str, *, timeout_seconds: float = 20.0) -> Result:
        """Play one case, on tasks that hold nothing of another one."""
        for task in self._tasks:
            await self._console.reset(task, [], everywhere=False)
        with prepared_case(address, self._folder) as case:
            outcomes = [
                ReplayOutcome((), "Stall", f"did not finish within {timeout_seconds:g} s") for _ in case.runs
            ]
            try:
                with trio.move_on_after(timeout_seconds):
                    await play(case, outcomes, self.session)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                return Result(case.id, case.suite, sorted(case.ops), "error", text, address=address)
            return replace(judge(case, outcomes), address=address)


async def play_all(
    addresses: Iterable[str],
    *,
    tasks: int = 3,
    seed: int = 0,
    timeout_seconds: float = 20.0,
    progress: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Play cases over so many processes of this machine, each for so long at most."""
    results = []
    options = ["--log-level", "error"]
    async with AsyncExitStack() as stack:
        # Some graphs read and write files with relative names.
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="replay-"))
        cluster = await stack.enter_async_context(
            local_cluster({"worker": tasks}, options=options, cwd=scratch)
        )
        console = await stack.enter_async_context(open_console(cluster.spec))
        player = TaskPlayer(cluster, console, scratch, seed=seed)
        for address in addresses:
            results.append(await player.play(address, timeout_seconds=timeout_seconds))
            if progress is not None:
                progress(results[-1])
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Play cases and print those that do not pass; 0 if all do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--suite", default="", help="comma-separated names; all if empty")
    parser.add_argument("--json", default="", help="write all results there")
    arguments = parser.parse_args(argv)
    suites = set(filter(None, arguments.suite.split(",")))
    addresses = [
        a for a in find_cases(*arguments.paths) if not suites or any(f"/{s}.tar" in a for s in suites)
    ]

    def show(result: Result) -> None:
        if result.status != "pass":
            print(result.id, result.status, result.why[:300], flush=True)

    results = trio.run(_play_all, addresses, arguments.tasks, arguments.seed, show)
    counts = collections.Counter(result.status for result in results)
    print(", ".join(f"{count} {status}" for status, count in sorted(counts.items())))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump([{"id": r.id, "status": r.status, "why": r.why} for r in results], file)
    return int(counts["pass"] != len(results))


async def _play_all(
    addresses: list[str], tasks: int, seed: int, progress: Callable[[Result], None]
) -> list[Result]:
    return await play_all(addresses, tasks=tasks, seed=seed, progress=progress)


if __name__ == "__main__":
    sys.exit(main())
