"""How much memory a step holds at most: `python -m tests.benchmarks.memory [--tensorflow PYTHON] [NAME...]`.

Three peaks of the same step: by the engine's own count of tensors (`Config(count_allocations=True)`, step
by step interpreted), by `tracemalloc` around a compiled step, which sees every buffer of NumPy, those
inside of kernels too, and by TensorFlow's allocator. Variables and feeds count in none of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import trio

import flowengine as fe
from tests.benchmarks.__main__ import workloads
from tests.benchmarks.workloads import Workload

#: What is measured if no name is given.
_DEFAULT = ("zoo/googlenet_train",)
#: Steps before a plan is compiled, and a few more.
_WARM_STEPS = 8


async def counted_peak(work: Workload, steps: int) -> list[int]:
    """The peak of each step by the engine's own ledger."""
    peaks = []
    graph = fe.Graph.from_graph_def(work.graph)
    async with fe.Session(graph, config=fe.Config(count_allocations=True)) as session:
        for run in work.setup:
            await session.run(list(run.fetches), dict(run.feeds), targets=run.targets)
        for _ in range(steps):
            metadata = fe.RunMetadata()
            await session.run(
                list(work.run.fetches), dict(work.run.feeds), targets=work.run.targets, run_metadata=metadata
            )
            assert metadata.peak_bytes is not None
            peaks.append(metadata.peak_bytes)
    return peaks


async def traced_peak(work: Workload, steps: int) -> list[int]:
    """The peak of each compiled step by `tracemalloc`: all that was allocated, Python's objects too."""
    peaks = []
    async with fe.Session(fe.Graph.from_graph_def(work.graph)) as session:
        for run in work.setup:
            await session.run(list(run.fetches), dict(run.feeds), targets=run.targets)

        async def step() -> None:
            await session.run(list(work.run.fetches), dict(work.run.feeds), targets=work.run.targets)

        for _ in range(_WARM_STEPS):
            await step()
        tracemalloc.start()
        try:
            for _ in range(steps):
                before, _ = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                await step()
                peaks.append(tracemalloc.get_traced_memory()[1] - before)
        finally:
            tracemalloc.stop()
    return peaks


def tensorflow_peak(work: Workload, steps: int, python: str) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        work.write(Path(folder))
        script = Path(__file__).with_name("memory_tensorflow.py")
        done = subprocess.run(
            [python, str(script), folder, str(steps)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"TensorFlow failed: {done.stderr[-500:]}")
    peaks: list[int] = json.loads(done.stdout)
    return peaks


def measure(work: Workload, steps: int, tensorflow: str | None) -> dict[str, list[int]]:
    """{what counted: the peak of each step}."""
    with tempfile.TemporaryDirectory() as folder:
        work.write(Path(folder))
        before = Path.cwd()
        os.chdir(folder)
        try:
            result = {
                "counted": trio.run(counted_peak, work, steps),
                "traced": trio.run(traced_peak, work, steps),
            }
        finally:
            os.chdir(before)
    if tensorflow:
        result["tensorflow"] = tensorflow_peak(work, steps, tensorflow)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.memory", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of names")
    parser.add_argument(
        "--tensorflow",
        metavar="PYTHON",
        default=os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON"),
        help="a Python that has TensorFlow",
    )
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args(arguments)
    for work in workloads(options.names or _DEFAULT):
        peaks = measure(work, options.steps, options.tensorflow)
        middle = {name: median(column) for name, column in peaks.items()}
        text = ", ".join(f"{name} {value / 1e6:.2f} MB" for name, value in middle.items())
        if "tensorflow" in middle:
            text += f"; ratio {middle['counted'] / middle['tensorflow']:.3f}"
        print(f"{work.name}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
