"""Paths of a new user that name no graph: each error says what the file is, and what to write instead."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]
TESTS = Path(__file__).parents[1]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    with zipfile.ZipFile(TESTS / "saved_model" / "recorded" / "simple.zip") as packed:
        packed.extractall(tmp_path / "models" / "2")
        packed.extractall(tmp_path / "models" / "10")
    return tmp_path / "models" / "10"


def told(capsys: Output, path: Path) -> str:
    assert main(["run", str(path)]) == failure.UNREADABLE_GRAPH
    return capsys.readouterr().err


def test_a_folder_of_versions_or_of_variables(exported: Path, capsys: Output) -> None:
    assert f"did you mean {exported}?" in told(capsys, exported.parent)
    assert f"did you mean {exported}?" in told(capsys, exported / "variables")
    index = exported / "variables" / "variables.index"
    assert f"is a part of a checkpoint: its graph is {exported}" in told(capsys, index)


def test_a_folder_of_checkpoints(tmp_path: Path, capsys: Output) -> None:
    with zipfile.ZipFile(TESTS / "train" / "classifier_of_tensorflow.zip") as packed:
        packed.extractall(tmp_path)
    meta = tmp_path / "model.ckpt-50.meta"
    assert f"but has {meta.name}: name {meta}" in told(capsys, tmp_path)
    assert f"is a checkpoint: its graph is {meta}" in told(capsys, tmp_path / "model.ckpt-50")
    data = tmp_path / "model.ckpt-50.data-00000-of-00001"
    assert f"is a part of a checkpoint: its graph is {meta}" in told(capsys, data)
    meta.unlink()
    assert "no graph to restore them into" in told(capsys, tmp_path)
    assert f"name the graph, with --restore {tmp_path / 'model.ckpt-50'}" in told(capsys, data)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x89HDF\r\n\x1a\n rest", "HDF5 file, as Keras writes"),
        (b"PK\x03\x04 rest of it", r"keras.models.load_model(FILE).export(DIR)"),
        (b"\x20\x00\x00\x00TFL3 rest", "TensorFlow Lite"),
        (b"\x93NUMPY\x01\x00", "--feed NAME=FILE"),
        (b"\xfd\xff\xfe nothing known", "no GraphDef, MetaGraphDef or SavedModel"),  # fields of no GraphDef
        (b"\xff\xfd\xfc nothing known", "no GraphDef, MetaGraphDef or SavedModel"),
    ],
)
def test_other_kinds_of_files(content: bytes, message: str, tmp_path: Path, capsys: Output) -> None:
    (file := tmp_path / "model").write_bytes(content)
    assert message in told(capsys, file)


def test_feeds_are_told_by_the_names_of_the_signature(exported: Path, capsys: Output) -> None:
    assert main(["run", str(exported), "--feed", "x=[1, 2, 3, 4]"]) == failure.BAD_FEED
    error = capsys.readouterr().err
    assert (
        "--feed x: its shape is [4], but the graph wants [?,4]: for a batch of one, write one more" in error
    )
    assert main(["run", str(exported), "--feed", "x=[[1, 2]]"]) == failure.BAD_FEED
    assert "wants [?,4]\n" in capsys.readouterr().err
    assert main(["run", str(exported), *["--feed", "x=[[1, 2, 3, 4]]"] * 2]) == failure.BAD_FEED
    assert "--feed x: it is fed twice" in capsys.readouterr().err


@pytest.mark.parametrize(("shape", "wanted"), [([], []), ([None], [1]), ([None, 1], [1, 1]), (None, [])])
def test_the_bytes_of_a_file_are_a_batch_of_one(
    shape: list[int | None] | None, wanted: list[int], tmp_path: Path, capsys: Output
) -> None:
    graph = fe.Graph()
    x = graph.placeholder("string", shape, name="x")
    graph.ops.StringLength(x, name="length")
    graph.ops.Shape(x, name="shape")
    (tmp_path / "graph.pb").write_bytes(graph.to_graph_def().SerializeToString())
    (file := tmp_path / "picture").write_bytes(b"\x00\xff\x00")
    command = ["run", str(tmp_path / "graph.pb"), "-y", "length", "-y", "shape", "--json"]
    assert main([*command, "--feed", f"x=@{file}"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["shape:0"]["value"] == wanted
    assert str(values["length:0"]["value"]).strip("[]") == "3"
