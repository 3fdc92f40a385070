"""Graphs handed to TensorFlow 1.15 in a process of its own, and what it says of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

TENSORFLOW: Final = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")
REASON: Final = "FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow 1.15"
_PROGRAM: Final = Path(__file__).with_name("tensorflow_gradients.py")


@dataclass(frozen=True)
class Job:
    """A graph, what runs before (feeds and targets), and what is wanted of it.

    ys, xs, grad_ys   gradients that TensorFlow itself makes, after the fetches; none without ys
    """

    graph: bytes
    feeds: Mapping[str, Any]
    fetches: Sequence[str] = ()
    setup: Sequence[tuple[Mapping[str, Any], Sequence[str]]] = ()
    ys: Sequence[str] = ()
    xs: Sequence[str] = ()
    grad_ys: Sequence[Any] = field(default=())


def answers(jobs: Sequence[Job], folder: Path) -> list[list[Any] | str]:
    """For each job its values, None for a gradient that TensorFlow has not, or its error as a text."""
    values: dict[str, Any] = {}
    told = [_told(job, number, folder, values) for number, job in enumerate(jobs)]
    (folder / "jobs.json").write_text(json.dumps(told), encoding="utf-8")
    np.savez(folder / "values.npz", **values)
    command = [str(TENSORFLOW), str(_PROGRAM), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    errors = json.loads((folder / "errors.json").read_text(encoding="utf-8"))
    with np.load(folder / "answers.npz") as found:
        return [
            error
            or [
                found[f"{number}/{place}"] if f"{number}/{place}" in found.files else None
                for place in range(len(job.fetches) + len(job.xs))
            ]
            for number, (job, error) in enumerate(zip(jobs, errors, strict=True))
        ]


def _told(job: Job, number: int, folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The job as its file says it; arrays are added to the values."""

    def keep(array: Any) -> str:
        key = f"v{len(values)}"
        values[key] = array
        return key

    def kept(feeds: Mapping[str, Any]) -> dict[str, str]:
        return {name: keep(value) for name, value in feeds.items()}

    (folder / f"{number}.pb").write_bytes(job.graph)
    told: dict[str, Any] = {
        "graph": f"{number}.pb",
        "setup": [{"feeds": kept(feeds), "targets": list(targets)} for feeds, targets in job.setup],
        "feeds": kept(job.feeds),
        "fetches": list(job.fetches),
    }
    if job.ys:
        weights = [keep(weight) for weight in job.grad_ys]
        told["gradients"] = {"ys": list(job.ys), "xs": list(job.xs), "grad_ys": weights}
    return told
