"""The figures of TensorFlow or ONNX Runtime beside ours: the same feeds, in a process of its own Python."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flowengine.cli.bench import other_side
from flowengine.cli.bench.measuring import WARM_UP, WARM_UP_STEPS, BenchJob
from flowengine.cli.bench.points import BenchTimes
from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError
from flowengine.cli.models.restoring import has_variables
from flowengine.cli.results import storable

if TYPE_CHECKING:
    from flowengine.cli.graphs import GraphSource


def measure_tensorflow(
    python: str, job: BenchJob, source: GraphSource
) -> tuple[list[BenchTimes], dict[int | None, list[Any]]]:
    """Time all points in TensorFlow; return the times, and the values of a step of each batch size.

    python   the interpreter that has TensorFlow 1.13 or later

    Raises CommandError where it does not run there, and (usage) for a graph whose variables come from a
    checkpoint beside a file: only a SavedModel brings TensorFlow its own.
    """
    if source.saved is None and job.restoration is not None and has_variables(source):
        raise CommandError(
            "--tensorflow: the variables of this graph come from a checkpoint: freeze the graph first "
            "(flowengine freeze), and compare the frozen one",
            USAGE,
        )
    return _measure("--tensorflow", "TensorFlow", python, job, source, {"onnx": ""})


def measure_onnxruntime(
    python: str, model: str, job: BenchJob, source: GraphSource, names: Mapping[str, str]
) -> tuple[list[BenchTimes], dict[int | None, list[Any]]]:
    """Time all points in ONNX Runtime, as `measure_tensorflow` does in TensorFlow.

    python   the interpreter that has onnxruntime
    model    the graph as ONNX, whose inputs and outputs are called as the tensors, their nodes, or `names`
    names    {tensor: its name in the signature that is called}

    Raises CommandError where it does not run there.
    """
    converted = {
        "onnx": os.path.abspath(model),
        "inputs": {name: _aliases(name, names) for feeds in job.feeds.values() for name in feeds},
        "outputs": [_aliases(name, names) for name in job.fetches],
    }
    return _measure("--onnxruntime", "ONNX Runtime", python, job, source, converted)


def _aliases(tensor: str, names: Mapping[str, str]) -> list[str]:
    return [tensor, tensor.partition(":")[0], *([names[tensor]] if tensor in names else [])]


def _measure(
    option: str, engine: str, python: str, job: BenchJob, source: GraphSource, converted: Mapping[str, Any]
) -> tuple[list[BenchTimes], dict[int | None, list[Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        request, answer = os.path.join(folder, "job.json"), os.path.join(folder, "answer.json")
        values = _write(job, source, Path(folder), request, converted)
        _run([python, str(other_side.__file__), request, answer], f"{option} {python}")
        with open(answer, encoding="utf-8") as file:
            found = json.load(file)
        timings = [
            BenchTimes(f"{engine} {found['version']}", point, each["latencies_ms"], each["seconds"])
            for point, each in zip(job.points, found["points"], strict=True)
        ]
        return timings, {batch: _read(path) for batch, path in values.items()}


def _write(
    job: BenchJob, source: GraphSource, folder: Path, request: str, converted: Mapping[str, Any]
) -> dict[int | None, Path]:
    """Write the job's files; return where the values of each batch size are going to be."""
    points, values = [], {}
    for point in job.points:
        feeds = job.feeds[point.batch]
        path = folder / f"feeds_{point.batch}.npz"
        if not path.exists():
            arrays = {str(index): storable(value, str(path)) for index, value in enumerate(feeds.values())}
            np.savez(path, **arrays)
        values[point.batch] = folder / f"values_{point.batch}.npz"
        points.append(
            {
                "concurrency": point.concurrency,
                "feeds": str(path),
                "names": list(feeds),
                "values": str(values[point.batch]),
            }
        )
    definition = folder / "graph.pb"
    if source.saved is None:
        definition.write_bytes(job.graph.to_graph_def().SerializeToString())
    document = {
        "graph": str(definition),
        "saved_model": "" if source.saved is None else str(source.saved.path.resolve()),
        "tags": [] if source.saved is None else list(source.saved.tags),
        "inits": [*job.inits, *job.starters] if source.saved is None else list(job.inits),
        "fetches": list(job.fetches),
        "points": points,
        "seconds": job.seconds,
        "warm_up": WARM_UP,
        "warm_up_steps": WARM_UP_STEPS,
        **converted,
    }
    Path(request).write_text(json.dumps(document), encoding="utf-8")
    return values


def _run(command: list[str], option: str) -> None:
    """Run the other process; CommandError with its last line where it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except OSError as error:
        raise CommandError(f"{option}: cannot run it: {error.strerror}", USAGE) from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        text = said[-1] if said else f"it ended with {done.returncode}"
        raise CommandError(f"{option}: {text}", STEP_ERROR)


def _read(path: Path) -> list[Any]:
    with np.load(path, allow_pickle=False) as held:
        return [held[name] for name in held.files]


def largest_difference(ours: Mapping[Any, list[Any]], theirs: Mapping[Any, list[Any]]) -> float | None:
    """Return the largest difference between numbers of both; None where there are no numbers to compare.

    Values of different shapes, and NaN and a number, differ by infinity.
    """
    found = []
    for key in ours.keys() & theirs.keys():
        for one, other in zip(ours[key], theirs[key], strict=True):
            mine = storable(one, "")
            if mine.dtype.kind not in "biufc" or not mine.size:
                continue
            if mine.shape != other.shape:
                return float("inf")
            wide = np.complex128 if mine.dtype.kind == "c" else np.float64
            same = (mine == other) | ((mine != mine) & (other != other))
            with np.errstate(invalid="ignore", over="ignore"):
                apart = np.where(same, 0, np.abs(mine.astype(wide) - other.astype(wide)))
            found.append(float(np.nan_to_num(apart, nan=np.inf).max()))
    return max(found, default=None)


__all__ = ["largest_difference", "measure_onnxruntime", "measure_tensorflow"]
