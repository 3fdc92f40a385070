"""Null training steps over PS tasks and workers (OSDI'16, 6.2), beside TensorFlow 1.15's gRPC runtime.

    python -m tests.benchmarks.bench_cluster --tensorflow PYTHON [--ps 4] [--workers 1,2,4] [NAME...]

In a step a worker fetches what the PS tasks hold, does next to nothing with it, and sends back an update of
one number to each. Both engines run the same GraphDef, in processes of their own on this machine, and take
turns; a round's time is the median of a step's over all workers. What is told is the median of the rounds'
ratios: a machine that others use too changes it less than the ratio of medians. Each workload has processes
of its own, which take steps until their allocators are at rest: TensorFlow needs up to 70 for 100 MB.

    scalar    a number from each PS
    dense     100 MB, split over the PS tasks
    sparse    32 rows of an embedding of 1 GB, split over the PS tasks

On paper: a step is a message to each PS and one back from it, 0.15 ms each where bare sockets need 0.12; gRPC
takes three or four times that. Dense steps are bound by copies in the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.cluster.memory_pages import huge_pages
from flowengine.transport.wire.identity import new_key
from tests.benchmarks.engines import unheld_environment

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
#: {name: (steps in a round, the bound on the ratio)}
NAMES: Final = {"scalar": (100, 1 / 3), "dense": (5, 0.7), "sparse": (50, 1 / 2)}
#: Steps before the first round.
UNMEASURED: Final = 100
DENSE_FLOATS: Final = 25_000_000
EMBEDDING: Final = (4_000_000, 64)
ROWS: Final = 32


def null_steps(ps: int, worker: int) -> fe.Graph:
    """The graph of one worker: `init_NAME` and `step_NAME` for every workload."""
    g = fe.Graph()
    for name in NAMES:
        inits, reads, updates = [], [], []
        for number in range(ps):
            with g.device(f"/job:ps/task:{number}/device:CPU:0"):
                shape = {
                    "scalar": [],
                    "dense": [DENSE_FLOATS // ps],
                    "sparse": [EMBEDDING[0] // ps, EMBEDDING[1]],
                }[name]
                table = g.ops.VariableV2(shape=shape, dtype="float32", name=f"{name}_{number}")
                filled = g.ops.Fill(g.constant(np.array(shape, np.int32)), g.constant(np.float32(1)))
                inits.append(g.ops.Assign(table, filled))
                counter = g.ops.VariableV2(shape=[], dtype="float32", name=f"{name}_{number}_updates")
                inits.append(g.ops.Assign(counter, g.constant(np.float32(0))))
                if name == "sparse":
                    rows = np.linspace(0, shape[0] - 1, ROWS // ps).astype(np.int32)
                    read: Any = g.ops.Gather(table, g.constant(rows))
                else:
                    read = g.ops.Identity(table)
            with g.device(f"/job:worker/task:{worker}/device:CPU:0"), g.control_dependencies([read]):
                # Waits for what was fetched to be here, and is what goes back.
                here = g.ops.Identity(read)
                with g.control_dependencies([here]):
                    reads.append(here)
                    update = g.constant(np.float32(1))
            with g.device(f"/job:ps/task:{number}/device:CPU:0"):
                updates.append(g.ops.AssignAdd(counter, update))
        with g.device(f"/job:worker/task:{worker}/device:CPU:0"):
            with g.control_dependencies([*reads, *updates]):
                g.ops.NoOp(name=f"step_{name}")
            with g.control_dependencies(inits):
                g.ops.NoOp(name=f"init_{name}")
    return g


class Task:
    """A process that is one task."""

    def __init__(
        self, command: Sequence[str], arguments: Any, environment: dict[str, str], tree: Path
    ) -> None:
        self.process = subprocess.Popen(
            [*command, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tree,
        )

    def ask(self, order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a task of the cluster ended: see above")
        return json.loads(line)


class Tasks:
    """A running cluster's processes; the workers' sessions are open."""

    def __init__(self, everybody: Sequence[Task], workers: Sequence[Task]) -> None:
        self.everybody = everybody
        self.workers = workers

    def processor_seconds(self) -> float:
        """Return the processor seconds that all tasks of this engine have used since they began."""
        for task in self.everybody:
            task.ask({"processor": True})
        return float(sum(task.answer()["processor"] for task in self.everybody))


@contextmanager
def cluster(
    command: Sequence[str],
    ps: int,
    workers: int,
    folder: Path,
    names: Sequence[str],
    tree: Path = ROOT,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Tasks]:
    """A running cluster, sessions open and variables set; `tree` is where tasks import FlowEngine from."""
    ports = free_ports(ps + workers)
    jobs = {
        "ps": [f"127.0.0.1:{port}" for port in ports[:ps]],
        "worker": [f"127.0.0.1:{port}" for port in ports[ps:]],
    }
    # As `flowengine cluster up` starts tasks, for both engines.
    environment = {**huge_pages(), **unheld_environment(), **(settings or {}), "PYTHONPATH": str(tree)}
    environment["FLOWENGINE_CLUSTER_KEY"] = new_key().hex()
    tasks = {
        (job, number): Task(command, {"jobs": jobs, "job": job, "task": number}, environment, tree)
        for job in jobs
        for number in range(len(jobs[job]))
    }
    try:
        for task in tasks.values():
            task.answer()
        running = [tasks["worker", number] for number in range(workers)]
        for number, task in enumerate(running):
            inits = [f"init_{name}" for name in names] if number == 0 else []
            task.ask({"graph": str(folder / f"worker{number}.pb"), "init": inits})
            task.answer()
        yield Tasks(list(tasks.values()), running)
    finally:
        for task in tasks.values():
            task.process.kill()
            task.process.wait()
            for pipe in (task.process.stdin, task.process.stdout):
                assert pipe is not None
                with suppress(BrokenPipeError):
                    pipe.close()


def measure(workers: Sequence[Task], name: str, steps: int) -> float:
    """The median seconds of a step, over workers that run at once."""
    for task in workers:
        task.ask({"run": f"step_{name}", "steps": steps})
    return float(median([seconds for task in workers for seconds in task.answer()["seconds"]]))


def main() -> None:
    """Print, for every number of workers and workload, both engines' step times and their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--tensorflow", default=os.environ.get("FLOWENGINE_BENCH_TF1_PYTHON", ""))
    parser.add_argument("--ps", type=int, default=4)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    names = arguments.names or list(NAMES)
    unknown = sorted(set(names) - NAMES.keys())
    if unknown:
        parser.error(f"there is no workload {', '.join(unknown)}; there are {', '.join(NAMES)}")
    commands = {"FlowEngine": [sys.executable, str(HERE / "cluster_peer.py")]}
    if arguments.tensorflow:
        commands["TensorFlow"] = [arguments.tensorflow, str(HERE / "cluster_tensorflow.py")]
    for workers in map(int, arguments.workers.split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for number in range(workers):
                graph_def = null_steps(arguments.ps, number).to_graph_def()
                (folder / f"worker{number}.pb").write_bytes(graph_def.SerializeToString())
            for workload in names:
                with ExitStack() as stack:
                    engines = {
                        engine: stack.enter_context(
                            cluster(command, arguments.ps, workers, folder, [workload])
                        )
                        for engine, command in commands.items()
                    }
                    report(engines, workload, arguments.rounds, f"{arguments.ps} PS, {workers} workers")


def report(engines: dict[str, Tasks], workload: str, rounds: int, where: str) -> None:
    """Measure one workload in turns and print a line."""
    steps, bound = NAMES[workload]
    for tasks in engines.values():
        measure(tasks.workers, workload, UNMEASURED)
    times: dict[str, list[float]] = {engine: [] for engine in engines}
    for _ in range(rounds):
        for engine, tasks in engines.items():
            times[engine].append(measure(tasks.workers, workload, steps))
    line = "  ".join(f"{engine} {1e3 * median(found):9.3f} ms" for engine, found in times.items())
    if len(times) == 2:
        ratios = [ours / theirs for ours, theirs in zip(*times.values(), strict=True)]
        line += f"  ratio {median(ratios):.2f} (bound {bound:.2f})"
    print(f"{where:18} {workload:7} {line}", flush=True)


if __name__ == "__main__":
    main()
