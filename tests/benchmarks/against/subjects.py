"""Subjects of the comparison: each can be opened for any tree and then measured again and again.

Graphs are built once, by this checkout, and written as files; a tree only reads and runs them. The code that
runs in the processes is this checkout's too (`engine_flowengine.py`, `cluster_peer.py`) and uses nothing of
a tree but what `flowengine` exports and the command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final, Protocol

from tests.benchmarks import bench_cluster, planning, startup
from tests.benchmarks.against.trees import Tree
from tests.benchmarks.engines import Engine, held_to
from tests.benchmarks.workloads import Run, Workload

#: Wall and processor seconds of one step, plan or process.
Seconds = tuple[float, float]
#: What follows a subject's name in the name of its other figure.
START: Final = ", load to first step"
#: How long a process takes steps before its first turn, and in each turn.
_SETTLING_SECONDS: Final = 0.3
_TURN_SECONDS: Final = 0.06
#: A plan is compiled at its fourth step and layers are joined two steps later; then times are learned.
_SETTLING_STEPS: Final = 9
#: A turn of short steps is measured in so many chunks.
_CHUNKS: Final = 5
#: Turns in a round: fewer where a step is longer than a turn should be.
_TURNS: Final = 7
_TURNS_OF_LONG_STEPS: Final = 3


@dataclass(frozen=True)
class Running:
    """A tree's fresh processes, ready to be measured.

    turn   measures once
    turns  how often, in each round
    start  {name of another figure: what was measured while the processes began}
    """

    turn: Callable[[], Seconds]
    turns: int
    start: Mapping[str, Seconds] = field(default_factory=dict)


class Subject(Protocol):
    """Something that can be measured of any tree."""

    @property
    def name(self) -> str: ...

    def open(self, tree: Tree, settings: dict[str, str]) -> AbstractContextManager[Running]:
        """Start the tree's processes; they end with the context."""
        ...


def _medians(pairs: Sequence[Sequence[float]]) -> Seconds:
    wall, processor = (median(column) for column in zip(*pairs, strict=True))
    return wall, processor


@dataclass(frozen=True)
class _Pace:
    """How many steps a process takes: the same for every tree, set by the first that is measured."""

    settling: int
    turns: int
    chunks: int
    steps: int

    @classmethod
    def of(cls, seconds: float) -> _Pace:
        """For steps that take so long."""
        settling = max(_SETTLING_STEPS, round(_SETTLING_SECONDS / seconds))
        fitting = int(_TURN_SECONDS / seconds)
        if fitting < _CHUNKS:
            return cls(settling, _TURNS if fitting else _TURNS_OF_LONG_STEPS, max(1, fitting), 1)
        return cls(settling, _TURNS, _CHUNKS, fitting // _CHUNKS)


@dataclass
class Steps:
    """Later steps of a workload; for `with_start` also reading the graph with the first step."""

    work: Workload
    cores: int
    with_start: bool = False
    _pace: _Pace | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        return f"{self.work.name}, {self.cores} core{'s' * (self.cores > 1)}"

    @contextmanager
    def open(self, tree: Tree, settings: dict[str, str]) -> Iterator[Running]:
        with (
            tempfile.TemporaryDirectory() as folder,
            Engine.of_tree(tree.folder, self.cores, settings) as engine,
        ):
            self.work.write(Path(folder))
            started = engine.ask(what="load", folder=folder)
            if "error" in started:
                raise RuntimeError(f"{tree.name}: {started['error']}")
            engine.ask(what="chunks", count=1, steps=_SETTLING_STEPS)
            if self._pace is None:
                self._pace = _Pace.of(_medians(engine.ask(what="chunks", count=3, steps=1))[0])
            pace = self._pace
            if pace.settling > _SETTLING_STEPS:
                engine.ask(what="chunks", count=1, steps=pace.settling - _SETTLING_STEPS)
            tree.check(engine.ask(what="files"))
            start = {}
            if self.with_start:
                wall = started["load"] + started["first"]
                start[f"{self.name}{START}"] = (wall, started["processor"])
            yield Running(
                lambda: _medians(engine.ask(what="chunks", count=pace.chunks, steps=pace.steps)),
                pace.turns,
                start,
            )


@dataclass
class Planning:
    """Making the plan of a graph of 10,000 nodes that has been read, in a new session each time."""

    name: str = "planning"
    nodes: int = 10_000
    _data: bytes = field(default=b"", init=False)

    @contextmanager
    def open(self, tree: Tree, settings: dict[str, str]) -> Iterator[Running]:
        self._data = self._data or planning.ladder(self.nodes).to_graph_def().SerializeToString()
        with tempfile.TemporaryDirectory() as folder, Engine.of_tree(tree.folder, 1, settings) as engine:
            Workload(self.name, self._data, Run({"x:0": 0}, ["y:0"])).write(Path(folder))
            engine.ask(what="open", folder=folder)
            engine.ask(what="plans", count=1)
            tree.check(engine.ask(what="files"))
            yield Running(lambda: _medians(engine.ask(what="plans", count=1)), _TURNS)


def _process(command: Sequence[str], environment: dict[str, str], folder: str) -> tuple[float, float]:
    """Wall and processor seconds of a process, from its start to its end."""
    started = time.perf_counter()
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        took = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{list(command)} ended with {process.returncode}")
    return took, used.ru_utime + used.ru_stime


@dataclass
class Processes:
    """Whole processes, from start to end, on one core."""

    name: str
    command: Callable[[Path], list[str]]

    @contextmanager
    def open(self, tree: Tree, settings: dict[str, str]) -> Iterator[Running]:
        environment = tree.environment(settings)
        with tempfile.TemporaryDirectory() as folder:
            command = self.command(Path(folder))

            def turn() -> Seconds:
                with held_to(1):
                    return _process(command, environment, folder)

            yield Running(turn, _TURNS)


def importing() -> Processes:
    return Processes("import", lambda folder: [sys.executable, "-c", "import flowengine"])


def command_line() -> Processes:
    return Processes("command_line", lambda folder: startup.command_line_commands(folder, None)[0])


@dataclass
class NullSteps:
    """Null steps of one worker over four PS tasks, five processes on two cores."""

    workload: str
    ps: int = 4
    _data: bytes = field(default=b"", init=False)

    @property
    def name(self) -> str:
        return f"null step over {self.ps} PS, {self.workload}"

    @contextmanager
    def open(self, tree: Tree, settings: dict[str, str]) -> Iterator[Running]:
        self._data = self._data or bench_cluster.null_steps(self.ps, 0).to_graph_def().SerializeToString()
        steps, _ = bench_cluster.NAMES[self.workload]
        command = [sys.executable, str(bench_cluster.HERE / "cluster_peer.py")]
        with tempfile.TemporaryDirectory() as name, held_to(2):
            (Path(name) / "worker0.pb").write_bytes(self._data)
            with bench_cluster.cluster(
                command, self.ps, 1, Path(name), [self.workload], tree.folder, settings
            ) as tasks:

                def turn() -> Seconds:
                    busy = tasks.processor_seconds()
                    wall = bench_cluster.measure(tasks.workers, self.workload, steps)
                    return wall, (tasks.processor_seconds() - busy) / steps

                bench_cluster.measure(tasks.workers, self.workload, bench_cluster.UNMEASURED)
                for task in tasks.everybody:
                    task.ask({"files": True})
                    tree.check(task.answer()["files"])
                yield Running(turn, _TURNS)
