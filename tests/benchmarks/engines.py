"""Engines as processes: each reads a JSON line that asks and writes a JSON line that answers.

    {"what": "version"}                     "TensorFlow 2.21.0"
    {"what": "load", "folder": ...}         {"load": seconds to read the graph, "first": of the first step}
    {"what": "time", "repeats": 100}        [seconds of each step]
    {"what": "value"}                       what a step fetches first as one number

and ours also

    {"what": "chunks", "count": 9, "steps": 20}   [[wall, processor] seconds of a step, mean of each chunk]
    {"what": "open", "folder": ...}               null: reads a graph, of which
    {"what": "plans", "count": 5}                 [[wall, processor] seconds of making each plan]
    {"what": "files"}                             [file of each module of FlowEngine that was imported]

They take turns: while one computes, the other waits for its next line, so that what disturbs the machine
disturbs both. An engine may be held to a number of cores: its libraries then start that many threads.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).resolve().parent

#: An installation may hold NumPy's BLAS to the kernels of an older processor, so that bits agree between its
#: machines. TensorFlow's products know no such setting, so neither engine is held to it here.
_HELD_BACK = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def unheld_environment() -> dict[str, str]:
    """This process's environment, less what holds one engine back and not the other."""
    return {name: value for name, value in os.environ.items() if name not in _HELD_BACK}


@contextmanager
def held_to(cores: int | None) -> Iterator[None]:
    """Limit processes and threads started inside to so many cores; without affinity, to all."""
    if cores is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[-cores:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


class Engine:
    """One engine's process; use it with `with`. `tree` is where FlowEngine is imported from."""

    def __init__(
        self,
        python: str,
        script: str,
        cores: int | None = None,
        tree: Path = HERE.parents[1],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        environment = {
            **unheld_environment(),
            "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")]),
            **(settings or {}),
        }
        if not script.endswith("_flowengine.py"):
            environment.pop("PYTHONPATH")
        with held_to(cores):
            self._process = subprocess.Popen(
                [python, str(HERE / script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
        self.name: str = self.ask(what="version")

    @classmethod
    def flowengine(cls, cores: int | None = None) -> Engine:
        return cls(sys.executable, "engine_flowengine.py", cores)

    @classmethod
    def of_tree(cls, tree: Path, cores: int | None, settings: Mapping[str, str]) -> Engine:
        """This harness's code with the FlowEngine of another tree."""
        return cls(sys.executable, "engine_flowengine.py", cores, tree, settings)

    @classmethod
    def tensorflow(cls, python: str, cores: int | None = None) -> Engine:
        return cls(python, "engine_tensorflow.py", cores)

    def ask(self, **question: Any) -> Any:
        """Send a question and wait for the answer; RuntimeError if the process ends instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"{self._process.args!r} ended with {self._process.wait()} when asked {question}"
            )
        return json.loads(line)

    def pause(self) -> None:
        """Stop the process where it is: what it does between questions takes nobody's time."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self.resume()
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
