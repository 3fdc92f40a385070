"""Runs during which tasks or the client are killed, or stopped for a while, at random moments.

Each must end as an undisturbed one.

make faults                                            200 kills of tasks, 20 of the client, 20 stops
python -m tests.faults.killing [--kills 200] [--client-kills 20] [--stops 20] [--seed S]
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import trio

from flowengine.cluster.local import LocalCluster, local_cluster
from tests.faults.training import SAVE_STEPS, digest, train

STEPS = 40
JOBS = {"ps": 1, "worker": 2}
TASKS = ["/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"]
ROOT = Path(__file__).resolve().parents[2]
#: No run may take longer, whatever happens.
RUN_SECONDS = 60.0
#: After this silence a task is lost.
SILENCE_SECONDS = 3.0
#: How long tasks are stopped: some are lost meanwhile, and come back with what they held.
STOPS_SECONDS = (0.2, 1.0, 3.5, 5.0)


@dataclass
class Report:
    """The counts of a run under faults: kills, stops, recoveries, and results that differ."""

    kills: Counter[str] = field(default_factory=Counter)
    stops: int = 0
    runs: int = 0
    restarts: int = 0
    #: Kills that came when the run had ended already: the next one begins without the task.
    late: int = 0
    different: list[str] = field(default_factory=list)
    slowest_seconds: float = 0.0

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of {task}" for task, count in sorted(self.kills.items()))
        return (
            f"{sum(self.kills.values())} kills ({kills}) and {self.stops} stops in {self.runs} runs: "
            f"{self.restarts} recoveries, "
            f"{self.late} kills after the end of a run, slowest run {self.slowest_seconds:.1f} s, "
            f"{len(self.different)} runs that ended otherwise"
        )


class Faults:
    """A running cluster whose tasks are started again when they end, and runs over it."""

    def __init__(self, cluster: LocalCluster, folder: Path, seed: int) -> None:
        self.cluster = cluster
        self.folder = folder
        self.random = random.Random(seed)
        self.report = Report()
        self.target = cluster.target("worker", 0)
        self.expected = ""
        self.usual_seconds = 0.0

    async def undisturbed(self) -> None:
        """The run that all others are compared with; it equals one within a single process, too."""
        values, _ = await train("", str(self.folder / "alone"), STEPS)
        self.expected = digest(values)
        for number in range(2):
            began = trio.current_time()
            values, result = await train(self.target, str(self.folder / f"first{number}"), STEPS)
            assert digest(values) == self.expected, "a run over the cluster differs from one in this process"
            assert result.restarts == []
            self.usual_seconds = trio.current_time() - began

    async def run_and_kill_tasks(self, count: int) -> None:
        """One run, during which so many tasks are killed at most.

        The first at a moment of the time that the run usually takes; each other one so many steps after the
        one before, when the run goes on again and may have saved since.
        """
        self.report.runs += 1
        name = f"run{self.report.runs}"
        tasks = [self.random.choice(TASKS) for _ in range(count)]
        first = self.random.random() * self.usual_seconds
        after = [self.random.randrange(1, 3 * SAVE_STEPS) for _ in range(1, count)]
        moments = [self.random.random() * self.usual_seconds / STEPS for _ in after]
        began = trio.current_time()
        done = trio.Event()
        steps = 0
        #: How many steps must have been made, those that were made again included, for the next kill.
        due = [float("inf")]
        begun = [0]

        async def kill(number: int, seconds: float) -> None:
            await trio.sleep(seconds)
            self.report.late += done.is_set()
            self.report.kills[tasks[number]] += 1
            self.cluster.processes[tasks[number]].kill()
            due[0] = steps + after[number] if number + 1 < count else float("inf")

        def on_step(_: int) -> None:
            nonlocal steps
            steps += 1
            if steps >= due[0]:
                due[0] = float("inf")
                begun.append(len(begun))
                nursery.start_soon(kill, begun[-1], moments[begun[-1] - 1])

        with trio.fail_after(RUN_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kill, 0, first)
                values, result = await train(self.target, str(self.folder / name), STEPS, on_step)
                done.set()
        self.report.restarts += len(result.restarts)
        self._judge(name, digest(values), f"kills of {tasks} at {first:.3f} s and {after} steps on", began)

    async def run_and_stop_a_task(self) -> None:
        """One run, during which a task is stopped for a while."""
        self.report.runs += 1
        self.report.stops += 1
        name = f"run{self.report.runs}"
        task, after = self.random.choice(TASKS), self.random.random() * self.usual_seconds
        seconds = self.random.choice(STOPS_SECONDS)
        began = trio.current_time()

        async def stop() -> None:
            await trio.sleep(after)
            process = self.cluster.processes[task]
            process.send_signal(signal.SIGSTOP)
            try:
                await trio.sleep(seconds)
            finally:
                process.send_signal(signal.SIGCONT)

        with trio.fail_after(RUN_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop)
                values, result = await train(self.target, str(self.folder / name), STEPS)
        self.report.restarts += len(result.restarts)
        self._judge(name, digest(values), f"{task} stopped after {after:.3f} s for {seconds} s", began)

    async def run_and_kill_client(self) -> None:
        """One run by a process of its own, which is killed at a random moment and started again."""
        self.report.runs += 1
        name = f"run{self.report.runs}"
        command = [sys.executable, "-m", "tests.faults.training", "--target", self.target]
        command += ["--directory", str(self.folder / name), "--steps", str(STEPS)]
        began = trio.current_time()
        after = self.random.randrange(STEPS)
        output = ""
        with trio.fail_after(RUN_SECONDS):
            process = await trio.lowlevel.open_process(
                command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=ROOT
            )
            stdout = process.stdout
            assert stdout is not None
            # A moment within one of its steps.
            while output.count("\n") <= after and (text := await stdout.receive_some()):
                output += text.decode()
            await trio.sleep(self.random.random() * self.usual_seconds / STEPS)
            process.kill()
            self.report.kills["the client"] += 1
            await process.wait()
            again = await trio.run_process(command, capture_stdout=True, cwd=ROOT)
        steps = again.stdout.decode().split()
        self.report.restarts += 1
        self._judge(name, steps[-1], f"client killed at step {after}", began)

    def _judge(self, name: str, found: str, what: str, began: float) -> None:
        self.report.slowest_seconds = max(self.report.slowest_seconds, trio.current_time() - began)
        if found != self.expected:
            self.report.different.append(f"{name} ended with {found}, not {self.expected}: {what}")
        else:
            shutil.rmtree(self.folder / name, ignore_errors=True)


async def run(kills: int, client_kills: int, stops: int, seed: int, *, progress: bool = False) -> Report:
    """So many kills of tasks, one to four a run, of the client, one a run, and stops of tasks, one a run."""
    os.environ["FLOWENGINE_SILENCE_SECONDS"] = str(SILENCE_SECONDS)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        async with local_cluster(JOBS, options=["--log-level", "error"], cwd=folder) as cluster:
            faults = Faults(cluster, Path(folder), seed)
            report = faults.report
            await faults.undisturbed()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cluster.supervise)
                while (left := kills - sum(report.kills.values())) > 0:
                    await faults.run_and_kill_tasks(min(left, faults.random.choice([1, 1, 2, 3, 4])))
                    if progress and report.runs % 10 == 0:
                        print(report, flush=True)
                await cluster.wait_ready()
                for _ in range(client_kills):
                    await faults.run_and_kill_client()
                for _ in range(stops):
                    await faults.run_and_stop_a_task()
                nursery.cancel_scope.cancel()
            return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--client-kills", type=int, default=20)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    report = trio.run(
        lambda: run(arguments.kills, arguments.client_kills, arguments.stops, seed, progress=True)
    )
    print(report)
    for each in report.different:
        print(each)
    return int(bool(report.different))


if __name__ == "__main__":
    sys.exit(main())
