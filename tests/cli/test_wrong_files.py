"""Files that are no graph: each is told for what it is, with what to do."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"


def archive(path: Path, *members: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name in members:
            file.writestr(name, b"\x80\x02.")


@pytest.mark.parametrize(
    ("name", "write", "told"),
    [
        ("graph.pb", lambda path: path.write_bytes(POINTER), "a Git LFS pointer"),
        ("model.json", lambda path: path.write_text('{"format": "graph-model"}'), "TensorFlow.js"),
        ("model.json", lambda path: path.write_text(' {"format": "layers-model"}'), "TensorFlow.js"),
        ("fingerprint.pb", lambda path: path.write_bytes(b"\x11\x22"), "the fingerprint of a SavedModel"),
        ("net.pt", lambda path: archive(path, "net/data.pkl", "net/version"), "a PyTorch file"),
        ("net.keras", lambda path: archive(path, "metadata.json"), ".keras files"),
    ],
)
def test_a_file_of_another_kind(
    name: str, write: Callable[[Path], None], told: str, tmp_path: Path, capsys: Output
) -> None:
    write(tmp_path / name)
    for verb in (["inspect"], ["run"], ["plan"]):
        assert main([*verb, str(tmp_path / name)]) == failure.UNREADABLE_GRAPH
        said = capsys.readouterr().err
        assert told in said
        assert said.count("\n") == 1


def test_a_saved_model_that_is_a_pointer(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "saved_model.pb").write_bytes(POINTER)
    assert main(["run", str(tmp_path)]) == failure.UNREADABLE_GRAPH
    assert "git lfs pull" in capsys.readouterr().err


def test_the_line_to_go_on_is_for_a_shell(tmp_path: Path, capsys: Output) -> None:
    graph = fe.Graph()
    graph.ops.Neg(graph.placeholder("float32", [], name="x"), name="y")
    path = tmp_path / "my graph.pb"
    path.write_bytes(graph.to_graph_def().SerializeToString())
    assert main(["run", str(path)]) == 0
    assert f"flowengine run '{path}' --feed x=SOURCE --fetch y" in capsys.readouterr().out


def test_what_has_a_default_is_shown_with_it(counter: str, capsys: Output) -> None:
    assert main(["run", counter]) == 0
    assert "step:0  float32 [] = 1.0, if it is not fed" in capsys.readouterr().out


def test_a_fingerprint_alone_is_no_graph_to_name(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "fingerprint.pb").write_bytes(b"\x11\x22")
    for path in (tmp_path, tmp_path / "fingerprint.pb"):
        assert main(["inspect", str(path)]) == failure.UNREADABLE_GRAPH
        shown = capsys.readouterr().err
        assert "the fingerprint of a SavedModel that is not here: name a GraphDef" in shown
        assert "name the folder" not in shown
