"""Graphs built here train as those that TensorFlow 1.15 builds, and either runs in the other."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from tests.client import exchanged

TENSORFLOW = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON")
RECORDED: dict[str, list[float]] = json.loads(
    Path(__file__).with_name("exchange_of_tensorflow.json").read_text()
)
#: (element type, steps, relative tolerance)
RUNS = [("float32", 20, 1e-4), ("float64", 100, 1e-6)]

with_tensorflow = pytest.mark.skipif(
    TENSORFLOW is None, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow"
)


def losses(
    graph: fe.Graph, steps: int, restored: Path | None = None, saved: Path | None = None
) -> list[float]:
    found = []
    with fe.blocking.Session(graph) as session:
        if restored is not None:
            session.call(fe.train.Saver().restore, restored)
        session.initialize()
        for _ in range(steps):
            found.append(float(session.run("loss:0")))
            session.run([], targets=["train"])
        if saved is not None:
            session.call(fe.train.Saver().save, saved)
    return found


def in_tensorflow(*arguments: Any) -> str:
    assert TENSORFLOW is not None
    command = [TENSORFLOW, "-m", "tests.client.exchange_in_tensorflow", *map(str, arguments)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(("dtype", "steps", "rtol"), RUNS)
@pytest.mark.parametrize("model", exchanged.MODELS)
def test_losses_are_those_of_tensorflows_graph(model: str, dtype: str, steps: int, rtol: float) -> None:
    graph = exchanged.build(model, dtype)
    np.testing.assert_allclose(losses(graph, steps), RECORDED[f"{model} {dtype}"], rtol=rtol)


@with_tensorflow
@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "steps", "rtol"), RUNS)
@pytest.mark.parametrize("model", exchanged.MODELS)
def test_a_graph_built_here_runs_in_tensorflow(
    model: str, dtype: str, steps: int, rtol: float, tmp_path: Path
) -> None:
    graph = exchanged.build(model, dtype)
    path = tmp_path / "graph.meta"
    path.write_bytes(graph.to_meta_graph().SerializeToString())
    np.testing.assert_allclose(
        json.loads(in_tensorflow("play", path, steps)), losses(graph, steps), rtol=rtol
    )


@with_tensorflow
@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "steps", "rtol"), RUNS)
@pytest.mark.parametrize("model", exchanged.MODELS)
def test_a_graph_built_in_tensorflow_runs_here(
    model: str, dtype: str, steps: int, rtol: float, tmp_path: Path
) -> None:
    path = tmp_path / "graph.meta"
    in_tensorflow("build", model, dtype, path)
    np.testing.assert_allclose(losses(fe.Graph.load(path), steps), RECORDED[f"{model} {dtype}"], rtol=rtol)


@with_tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("model", exchanged.MODELS)
def test_a_checkpoint_goes_on_in_the_graph_of_the_other(model: str, tmp_path: Path) -> None:
    wanted = RECORDED[f"{model} float64"][10:20]
    losses(exchanged.build(model, "float64"), 10, saved=tmp_path / "here")
    there = json.loads(in_tensorflow("go-on", model, "float64", tmp_path / "here", 10))
    np.testing.assert_allclose(there, wanted, rtol=1e-6)
    in_tensorflow("save", model, "float64", tmp_path / "there", 10)
    here = losses(exchanged.build(model, "float64"), 10, restored=tmp_path / "there")
    np.testing.assert_allclose(here, wanted, rtol=1e-6)
