"""`flowengine bench`: points, feeds that are made up, figures, TensorFlow beside."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.bench.beside import largest_difference
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]
Save = Callable[[fe.Graph], str]
ROOT: Final = Path(__file__).resolve().parents[2]
MODEL: Final = ROOT / "docs" / "examples" / "keras_digits"
QUICK: Final = ("--seconds", "0.01")

#: As much of TensorFlow as the other side uses, over a session of ours: the protocol without the install.
TENSORFLOW: Final = """
import sys, types
import flowengine as fe

__version__ = "0.0-of-the-test"

class Graph:
    def as_default(self): return self
    def __enter__(self): return self
    def __exit__(self, *rest): pass
    def get_operation_by_name(self, name): return name

class GraphDef:
    def ParseFromString(self, data): self.data = data

class Session:
    def __init__(self, graph): self.graph = graph
    def __enter__(self): return self
    def __exit__(self, *rest): self.graph.session.__exit__(*rest)
    def run(self, fetches, feeds=None):
        if isinstance(fetches, str):
            return self.graph.session.run((), feeds, targets=[fetches])
        return self.graph.session.run(fetches, feeds)

default = Graph()
Graph = lambda: default

def import_graph_def(definition, name):
    open("graph.pb", "wb").write(definition.data)
    default.session = fe.blocking.Session(fe.Graph.load("graph.pb")).__enter__()

logging = types.SimpleNamespace(set_verbosity=lambda level: None, ERROR=0)
v1 = types.SimpleNamespace(logging=logging, Session=Session, GraphDef=GraphDef)
compat = types.SimpleNamespace(v1=v1)
"""


@pytest.fixture
def tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write an interpreter that has a module `tensorflow`; return its path."""
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:{ROOT} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return str(python)


#: As much of ONNX Runtime as the other side uses: the file names a graph and what is fed and fetched.
ONNXRUNTIME: Final = """
import json, types
import flowengine as fe

__version__ = "0.0-of-the-test"

class InferenceSession:
    def __init__(self, path, providers):
        self.model = json.load(open(path))
        self.session = fe.blocking.Session(fe.Graph.load(self.model["graph"])).__enter__()
    def get_inputs(self): return [types.SimpleNamespace(name=name) for name in self.model["inputs"]]
    def get_outputs(self): return [types.SimpleNamespace(name=name) for name in self.model["outputs"]]
    def run(self, outputs, feeds):
        feeds = {self.model["inputs"][name]: value for name, value in feeds.items()}
        return self.session.run([self.model["outputs"][name] for name in outputs], feeds)
"""


def benched(capsys: Output, *line: str) -> dict[str, Any]:
    assert main(["bench", *line, *QUICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_each_batch_is_measured_with_each_number_of_tasks(linear: str, capsys: Output) -> None:
    found = benched(capsys, linear, "--fetch", "y", "--batch", "1,3", "--concurrency", "1,2")
    assert [(each["batch"], each["concurrency"]) for each in found["points"]] == [
        (1, 1),
        (1, 2),
        (3, 1),
        (3, 2),
    ]
    for each in found["points"]:
        latency = each["latency_ms"]
        assert 0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
        assert each["rows_per_second"] == pytest.approx(each["batch"] * each["steps_per_second"], rel=1e-2)
        assert each["steps"] >= each["concurrency"]
    assert found["fetches"] == ["y"]
    assert found["feeds"] == ["x:0"]
    assert found["largest_difference"] is None


def test_feeds_are_those_of_run_or_made_up(save: Save, capsys: Output) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    ids = graph.placeholder("int32", [None, None], name="ids")
    graph.placeholder("string", [], name="unused")
    total = graph.ops.AddV2(
        graph.ops.Sum(x, [0, 1]), graph.ops.Cast(graph.ops.Sum(ids, [0, 1]), DstT="float32")
    )
    graph.ops.Identity(total, name="y")
    path = save(graph)
    assert main(["bench", path, *QUICK, "-x", "x=[[1, 2]]", "-y", "y"]) == 0
    said = capsys.readouterr()
    assert said.err == "fed with random values: ids:0\n"
    assert "as fed" in said.out
    assert "█" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (
            ["-y", "text"],
            failure.BAD_FEED,
            "no value can be made up for s:0 (string []): add --feed s=SOURCE",
        ),
        (["-y", "fixed", "--batch", "2"], failure.USAGE, "no feed has a first dimension that is free"),
        (["-y", "fixed", "--batch", "0"], failure.USAGE, "not a list of numbers"),
        (["-y", "none"], failure.USAGE, "no node of this name"),
        (
            ["-y", "fixed", "--tensorflow", "/no/python"],
            failure.USAGE,
            "--tensorflow /no/python: cannot run it",
        ),
    ],
)
def test_what_cannot_be_measured(line: list[str], code: int, told: str, save: Save, capsys: Output) -> None:
    graph = fe.Graph()
    graph.ops.Identity(graph.placeholder("string", [], name="s"), name="text")
    graph.ops.Neg(graph.placeholder("float32", [2], name="x"), name="fixed")
    assert main(["bench", save(graph), *QUICK, *line]) == code
    assert told in capsys.readouterr().err


def test_a_saved_model_is_called_by_its_signature(capsys: Output) -> None:
    found = benched(capsys, str(MODEL), "--batch", "2")
    assert found["fetches"] == ["scores"]
    assert found["points"][0]["steps"] >= 1


@pytest.mark.skipif(sys.platform == "win32", reason="the interpreter is a script of a shell")
def test_tensorflow_is_measured_beside(linear: str, tensorflow: str, capsys: Output) -> None:
    line = ["--fetch", "y", "--batch", "1,4", "--concurrency", "2", "--tensorflow", tensorflow]
    found = benched(capsys, linear, *line)
    engines = [each["engine"] for each in found["points"]]
    assert [each.partition(" ")[0] for each in engines] == ["FlowEngine"] * 2 + ["TensorFlow"] * 2
    assert engines[2] == "TensorFlow 0.0-of-the-test"
    assert found["largest_difference"] == 0
    assert main(["bench", linear, *QUICK, *line]) == 0
    assert "largest difference between the values of both: 0\n" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="the interpreter is a script of a shell")
def test_onnxruntime_is_measured_beside(linear: str, tensorflow: str, capsys: Output) -> None:
    python, model = tensorflow, Path("model.onnx")
    Path("onnxruntime.py").write_text(ONNXRUNTIME)
    line = ["--fetch", "y", "--batch", "2", "--onnxruntime", python, "--onnx", str(model)]
    for inputs, outputs in (({"x": "x"}, {"y:0": "y:0"}), ({"x:0": "x"}, {"renamed": "y:0"})):
        model.write_text(json.dumps({"graph": linear, "inputs": inputs, "outputs": outputs}))
        found = benched(capsys, linear, *line)
        engines = [each["engine"] for each in found["points"]]
        assert engines[1:] == ["ONNX Runtime 0.0-of-the-test"]
        assert found["largest_difference"] == 0
    model.write_text(json.dumps({"graph": linear, "inputs": {"a": "x", "b": "x"}, "outputs": {"y": "y:0"}}))
    assert main(["bench", linear, *QUICK, *line]) == failure.STEP_ERROR
    assert "has no input x:0 or x" in capsys.readouterr().err
    assert main(["bench", linear, *QUICK, *line[:-2]]) == failure.USAGE
    assert "belong together" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="the interpreter is a script of a shell")
def test_what_fails_in_tensorflow_is_told(counter: str, tensorflow: str, capsys: Output) -> None:
    line = ["bench", counter, "--init", "init", "--fetch", "count", *QUICK, "--tensorflow", tensorflow]
    assert main(line) == 0
    Path("tensorflow.py").write_text("raise ImportError('no such library')")
    capsys.readouterr()
    assert main(line) == failure.STEP_ERROR
    assert f"--tensorflow {tensorflow}: ImportError: no such library" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5),
        ([np.nan, np.inf], [np.nan, np.inf], 0.0),
        ([1.0], [1.0, 2.0], np.inf),
        ([1 + 1j], [1 + 2j], 1.0),
        ([True], [False], 1.0),
        ([np.nan], [1.0], np.inf),
    ],
)
def test_the_largest_difference(ours: list[Any], theirs: list[Any], difference: float) -> None:
    assert largest_difference({None: [np.array(ours)]}, {None: [np.array(theirs)]}) == difference


def test_texts_have_no_difference() -> None:
    texts = np.array([b"a"], dtype=object)
    assert largest_difference({None: [texts]}, {None: [texts.astype(np.bytes_)]}) is None
