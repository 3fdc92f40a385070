"""Drawings of graphs, folded by scope, and statistics of values with a histogram."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import flowengine as fe
from flowengine.checkpoint import BundleWriter
from flowengine.cli import failure
from flowengine.cli.looking.folding import INPUT, OP, SCOPE, fold
from flowengine.cli.looking.stats import bars, readable, statistics
from flowengine.cli.main import main
from flowengine.core import dtypes

Output = pytest.CaptureFixture[str]
Save = Callable[[fe.Graph], str]
ROOT: Final = Path(__file__).resolve().parents[2]
MODEL: Final = ROOT / "docs" / "examples" / "keras_digits"


def towers(count: int, depth: int) -> fe.Graph:
    """Chains of nodes, each in a scope of its own, behind one input; a last node adds their ends."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 3], name="x")
    ends = []
    for tower in range(count):
        y = x
        for number in range(depth):
            y = graph.ops.Neg(y, name=f"tower_{tower}/part/neg_{number}")
        ends.append(graph.ops.Identity(y, name=f"tower_{tower}/end"))
    graph.ops.AddN(ends, name="sum")
    return graph


def test_scopes_are_folded_with_tensors_between_them() -> None:
    folded = fold(towers(2, 30), boxes_max=6)
    boxes = {box.name: (box.kind, box.detail) for box in folded.boxes}
    assert boxes == {
        "x": (INPUT, "float32 [?,3]"),
        "sum": (OP, "AddN"),
        "tower_0/": (SCOPE, "30 nodes"),
        "tower_1/": (SCOPE, "30 nodes"),
    } or set(boxes) == {"x", "sum", "tower_0/part/", "tower_1/part/"}
    ends = {name for name, (kind, _) in boxes.items() if kind == SCOPE}
    assert folded.edges == {pair: ["float32 [?,3]"] for end in ends for pair in (("x", end), (end, "sum"))}


@given(count=st.integers(1, 6), depth=st.integers(1, 12), boxes_max=st.integers(8, 60))
def test_a_drawing_stays_small_and_loses_nothing(count: int, depth: int, boxes_max: int) -> None:
    folded = fold(towers(count, depth), boxes_max)
    assert len(folded.boxes) <= boxes_max
    names = [box.name for box in folded.boxes]
    assert len(set(names)) == len(names)
    counted = sum(int(box.detail.split()[0]) if box.kind == SCOPE else 1 for box in folded.boxes)
    assert counted == count * depth + 2  # the identities only hand on
    assert {name for pair in folded.edges for name in pair} == set(names)


def test_outermost_names_that_differ_by_a_number_share_a_box() -> None:
    graph = fe.Graph()
    ends: list[fe.Tensor] = []
    for _ in range(60):
        x = graph.placeholder("float32", [None, 3], name="x") if len(ends) < 2 else graph.tensor("x:0")
        ends.append(graph.ops.Sum(graph.ops.Neg(x), [0]))
    graph.ops.AddN(ends, name="total")
    boxes = {box.name: (box.kind, box.title, box.detail) for box in fold(graph).boxes}
    assert boxes == {
        "x": (INPUT, "x", "float32 [?,3]"),
        "x_1": (INPUT, "x_1", "float32 [?,3]"),
        "total": (OP, "total", "AddN"),
        "Neg_*/": (SCOPE, "Neg_*", "60 nodes"),
        "Sum_*/": (SCOPE, "Sum_*", "60 nodes"),
    }


@given(
    names=st.lists(st.from_regex(r"\A[a-z]{1,2}(_[0-9])?(/[a-z])?\Z"), max_size=90, unique=True),
    boxes_max=st.integers(1, 40),
)
def test_outermost_names_however_many_fit_a_drawing(names: list[str], boxes_max: int) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    for name in names:
        graph.ops.Neg(x, name=f"y{name}")
    count = len(graph)
    folded = fold(graph, boxes_max)
    assert len(folded.boxes) <= boxes_max
    counted = sum(int(box.detail.split()[0]) if box.kind == SCOPE else 1 for box in folded.boxes)
    assert counted == count
    assert boxes_max == 1 or "x" in {box.name for box in folded.boxes}


def test_a_text_for_graphviz_needs_no_graphviz(
    save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    graph.group(graph.ops.Neg(x, name="neg"), name="group")
    path, target = save(graph), tmp_path / "graph.dot"
    assert main(["inspect", path, "--draw", str(target)]) == 0
    text = target.read_text()
    assert '"x" -> "neg" [label="float32 [?,2]"];' in text
    assert '"neg" -> "group" [style=dashed];' in text
    assert capsys.readouterr().err == f"drew 3 boxes in {target}\n"
    for line, told in (
        ([str(target)], "it is there already: add --force"),
        ([str(tmp_path / "graph.svg")], "Graphviz is not installed: apt install graphviz"),
        ([str(tmp_path / "graph.jpeg")], "the name must end in .svg, .png, .pdf, .dot, .gv"),
    ):
        assert main(["inspect", path, "--draw", *line]) == failure.USAGE
        said = capsys.readouterr().err
        assert told in said
        assert "--draw" in said


def test_a_saved_model_is_drawn_as_its_signature_runs_it(tmp_path: Path) -> None:
    target = tmp_path / "model.dot"
    assert main(["inspect", str(MODEL), "--draw", str(target)]) == 0
    text = target.read_text()
    assert 'label="image\\nfloat32 [?,8,8,1]"' in text
    assert 'label="scores\\nfloat32 [?,10]"' in text
    assert "float32 [128,32]" in text
    assert "Identity" not in text
    assert "StatefulPartitionedCall\\n" not in text


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws(linear: str, tmp_path: Path) -> None:
    target = tmp_path / "graph.svg"
    assert main(["inspect", linear, "--draw", str(target)]) == 0
    assert ET.parse(target).getroot().tag.endswith("svg")
    assert "float32 [?,2]" in target.read_text()


def test_what_dot_says_is_told(
    linear: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "dot").write_text("#!/bin/sh\necho no fonts >&2; exit 3\n")
    (binaries / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(binaries), prepend=":")
    assert main(["inspect", linear, "--draw", str(tmp_path / "graph.svg")]) == failure.STEP_ERROR
    assert "dot ended with 3: no fonts" in capsys.readouterr().err


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=2, min_side=0)))
def test_statistics_are_those_of_numpy(array: Any) -> None:
    found = statistics(array)
    finite = array[np.isfinite(array)].astype(np.float64)
    assert found["count"] == array.size == finite.size + found["nan"] + found["infinite"]
    if finite.size:
        assert np.float32(found["min"]) == finite.min()
        assert np.float32(found["max"]) == finite.max()
        assert found["mean"] == pytest.approx(finite.mean(), rel=1e-6, abs=1e-30)
        assert found["std"] == pytest.approx(finite.std(), rel=1e-6, abs=1e-6 * abs(finite).max() or 1e-30)
        assert sum(found["histogram"]) == finite.size
        assert found["histogram"][-1] > 0
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert len(readable("x:0", array).splitlines()) <= 3


def test_a_histogram_shows_each_bin_that_has_a_number() -> None:
    assert bars([0, 1, 1000, 500]) == " ▁█▄"
    assert readable("x:0", np.array([1, 2, 2, 3])) == (
        "x:0  int64 [4]\n  min 1  mean 2  max 3  std 0.7071\n  1 |▄ █▄| 3"
    )
    assert readable("s:0", np.array([b"one", b"three"], dtype=object)).endswith(
        "2 distinct, the longest of 5 bytes"
    )
    assert readable("n:0", np.array([np.nan, 0.0])).endswith("1 zeros  1 NaN")
    assert readable("c:0", np.array([3 + 4j], np.complex64)).splitlines()[1].startswith("  min 5  mean 5")


def test_values_and_checkpoints_are_shown_by_their_statistics(
    linear: str, tmp_path: Path, capsys: Output
) -> None:
    assert main(["run", linear, "-x", "x=[[1, 2], [3, 4]]", "-y", "y", "--stats"]) == 0
    assert capsys.readouterr().out.startswith("y:0  float32 [2, 1]\n  min 4  mean 6  max 8  std 2\n")
    assert main(["run", linear, "-x", "x=[[1, 2]]", "-y", "y", "--stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stats"]["y:0"]["mean"] == 4
    prefix = str(tmp_path / "model.ckpt")
    with BundleWriter(prefix, sync=False) as writer:
        writer.add(b"w", np.arange(9, dtype=np.float32), dtypes.float32)
    assert main(["checkpoint", "show", prefix, "--stats"]) == 0
    assert "  0 |" in capsys.readouterr().out
    assert main(["checkpoint", "show", prefix, "w", "--stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tensors"]["w"]["max"] == 8


def test_values_of_a_saved_model_are_those_of_its_checkpoint(capsys: Output) -> None:
    assert main(["inspect", str(MODEL), "--stats"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("variables: 7\n  conv2d/kernel  float32 [3, 3, 1, 8]\n    min ")
    with fe.blocking.load_saved_model(MODEL) as model:
        kernel = model.variables["conv2d/kernel"].read()
    assert main(["inspect", str(MODEL), "--stats", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["constants"] == {}
    assert document["variables"]["conv2d/kernel"]["max"] == pytest.approx(float(kernel.max()))
    assert document["variables"]["seed_generator/seed_generator_state"]["count"] == 2


def _with_variables(tmp_path: Path) -> Path:
    """Write a graph with two variables, of which the checkpoint beside it holds one, and two constants."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 12], name="x")
    kept = graph.variable(np.full((12, 2), 0.5, np.float32), name="kept")
    graph.variable(np.zeros(3, np.float32), name="lost")
    wide = graph.constant(np.arange(12, dtype=np.float32), name="wide")
    graph.ops.MatMul(graph.ops.Mul(graph.ops.AddV2(x, wide), 2.0), kept.value(), name="y")
    path = tmp_path / "model.meta"
    path.write_bytes(graph.to_graph_def().SerializeToString())
    return path


def test_values_of_the_checkpoint_beside_a_graph(tmp_path: Path, capsys: Output) -> None:
    path = _with_variables(tmp_path)
    assert main(["inspect", str(path), "--stats"]) == 0
    shown = capsys.readouterr().out
    assert "kept: no checkpoint has a value" in shown
    assert "constants of more than 8 floats: 2\n" in shown  # an initial value is the other
    assert "  wide  float32 [12]\n    min 0  mean 5.5  max 11" in shown
    with BundleWriter(str(tmp_path / "model")) as writer:
        writer.add(b"kept", np.full((12, 2), 0.5, np.float32), dtypes.float32)
    assert main(["inspect", str(path), "--stats"]) == 0
    shown = capsys.readouterr().out
    assert "kept  float32 [12, 2]\n    min 0.5  mean 0.5  max 0.5  std 0" in shown
    assert "lost: no checkpoint has a value" in shown


def test_ten_values_or_all(save: Save, tmp_path: Path, capsys: Output) -> None:
    graph = fe.Graph()
    for number in range(12):
        graph.constant(np.arange(9, dtype=np.float32), name=f"c{number}")
    path = save(graph)
    assert main(["inspect", path, "--stats"]) == 0
    shown = capsys.readouterr().out
    assert (shown.count("[9]"), "and 2 more: --all" in shown) == (10, True)
    assert main(["inspect", path, "--stats", "--all"]) == 0
    assert capsys.readouterr().out.count("[9]") == 12
    assert main(["inspect", path, "--stats", "--draw", str(tmp_path / "a.dot")]) == failure.USAGE
