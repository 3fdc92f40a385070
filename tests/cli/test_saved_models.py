"""SavedModels and checkpoints on the shell: signatures, restoring, and what is told where it is missing."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main

pytestmark = pytest.mark.everywhere

Output = pytest.CaptureFixture[str]
RECORDED = Path(__file__).parents[1] / "saved_model" / "recorded"


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[str], str]:
    def unpack(name: str) -> str:
        with zipfile.ZipFile(RECORDED / f"{name}.zip") as packed:
            packed.extractall(tmp_path / name)
        return str(tmp_path / name)

    return unpack


def values(capsys: Output) -> dict[str, Any]:
    document = json.loads(capsys.readouterr().out)
    return {name: each["value"] for name, each in document["values"].items()}


@pytest.mark.parametrize("name", ["simple", "keras_dense", "keras_words", "module"])
def test_a_directory_is_called_by_its_default_signature(
    name: str, exported: Callable[[str], str], capsys: Output
) -> None:
    folder = exported(name)
    call = json.loads((Path(folder) / "values.json").read_text())[0]
    feeds = [
        word for key, value in call["inputs"].items() for word in ("--feed", f"{key}={json.dumps(value)}")
    ]
    assert main(["run", folder, *feeds, "--json"]) == 0
    found = values(capsys)
    assert found.keys() == call["outputs"].keys()
    for key, wanted in call["outputs"].items():
        np.testing.assert_allclose(found[key], wanted, rtol=1e-5)


def test_a_signature_and_a_graph_are_chosen(exported: Callable[[str], str], capsys: Output) -> None:
    folder = exported("hub")
    feed = ["--feed", 'text=["two"]']
    assert main(["run", folder, "--tag", "train", *feed, "--json"]) == 0
    assert values(capsys) == {"default": [[4, 6]]}
    assert main(["run", folder, *feed, "--json"]) == 0
    assert values(capsys) == {"default": [[2, 3]]}
    assert main(["run", folder, "--tag", "serve", *feed]) == failure.UNREADABLE_GRAPH
    assert "no graph with the tag 'serve'" in capsys.readouterr().err
    assert main(["run", folder, "--tag", "train", "--signature", "other"]) == failure.USAGE
    assert "--signature other: there is no such signature (there are: default)" in capsys.readouterr().err
    folder = exported("estimator")
    assert main(["run", folder, "--signature", "predict"]) == failure.BAD_FEED
    told = "add --feed examples=SOURCE (string [?]), which signature 'predict' wants"
    assert told in capsys.readouterr().err
    assert main(["run", folder, "--feed", "x=1"]) == failure.BAD_FEED
    assert "neither the signature nor the graph has it (inputs: inputs)" in capsys.readouterr().err
    assert main(["run", folder, "--fetch", "global_step", "--json"]) == 0
    assert values(capsys) == {"global_step:0": 2}


def test_an_output_is_fetched_by_its_name(exported: Callable[[str], str], capsys: Output) -> None:
    folder = exported("module")
    assert main(["run", folder, "--signature", "look", "-x", 'words=["y"]', "-y", "ids"]) == 0
    assert capsys.readouterr().out == "ids  int64 [1]\n[1]\n"


def test_a_directory_says_how_to_call_it(exported: Callable[[str], str], capsys: Output) -> None:
    folder = exported("simple")
    assert main(["run", folder]) == 0
    out = capsys.readouterr().out
    assert "takes x  float32 [?,4]" in out
    assert f"flowengine run {folder} --feed x=SOURCE" in out
    assert main(["inspect", folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["signatures: 1", "  serving_default: x float32 [?,4] -> y float32 [?,3]"]


def test_a_variable_of_several_nodes_is_listed_once(root: Path, capsys: Output) -> None:
    assert main(["inspect", str(root / "docs" / "examples" / "keras_digits"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ops"]["VarHandleOp"] == 20
    assert [each["name"] for each in document["variables"]][:2] == ["conv2d/kernel", "conv2d/bias"]
    assert document["parameters"]["in_variables"] == 80 + 4128 + 330 + 2


def trained(folder: Path, *, meta: bool) -> None:
    """A graph with two variables, the checkpoint of a session, and the graph beside it as a file."""
    graph = fe.Graph()
    w = graph.ops.VariableV2(shape=[], dtype="float32", name="w")
    handle = graph.ops.VarHandleOp(dtype="float32", shape=[], shared_name="b", name="b")
    b = graph.ops.ReadVariableOp(handle, dtype="float32")
    graph.ops.Add(graph.ops.Mul(w, graph.placeholder("float32", [], name="x")), b, name="y")
    first = graph.ops.Assign(w, 3.0)
    second = graph.ops.AssignVariableOp(handle, 1.0)
    graph.group(first, second, name="init")

    async def save() -> None:
        saver = fe.train.Saver()
        if meta:
            saver.add_to(graph)
        async with fe.Session(graph) as session:
            await session.run((), targets=["init"])
            await saver.save(session, folder / "model.ckpt", global_step=7)

    folder.mkdir()
    trio.run(save)
    if not meta:
        (folder / "graph.pb").write_bytes(graph.to_graph_def().SerializeToString())


@pytest.mark.parametrize("file", ["model.ckpt-7.meta", "graph.pb"])
def test_the_checkpoint_beside_a_graph_is_restored(file: str, tmp_path: Path, capsys: Output) -> None:
    folder = tmp_path / "run"
    trained(folder, meta=file.endswith(".meta"))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["run", str(folder / file), "-x", "x=2", "-y", "y", "--json"]) == 0
    assert values(capsys) == {"y:0": 7}
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_training_step_is_told_of_the_checkpoint_beside(tmp_path: Path, capsys: Output) -> None:
    """It restores nothing by itself: who trains says what from."""
    trained(tmp_path / "run", meta=False)
    graph = str(tmp_path / "run" / "graph.pb")
    assert main(["run", graph, "-x", "x=2", "--target", "y"]) == failure.STEP_ERROR
    assert f"add --restore {tmp_path / 'run' / 'model.ckpt-7'} or --init init" in capsys.readouterr().err


def test_a_text_for_a_batch_is_written_as_it_has_to_be(
    exported: Callable[[str], str], capsys: Output
) -> None:
    folder = exported("hub")
    assert main(["run", folder, "--feed", "text=two words"]) == failure.BAD_FEED
    assert """for a batch of one, write --feed 'text=["two words"]'""" in capsys.readouterr().err
    assert main(["run", folder, "--feed", "text=[two, words]"]) == failure.BAD_FEED
    assert """texts in brackets are quoted, as in '["one", "two"]'""" in capsys.readouterr().err


def test_a_checkpoint_elsewhere_is_named(tmp_path: Path, capsys: Output) -> None:
    folder = tmp_path / "run"
    trained(folder, meta=False)
    alone = tmp_path / "alone"
    alone.mkdir()
    graph = str(shutil.move(folder / "graph.pb", alone / "graph.pb"))
    command = ["run", graph, "-x", "x=2", "-y", "y", "--json"]
    assert main(command) == failure.STEP_ERROR
    assert "add --restore CHECKPOINT or --init init" in capsys.readouterr().err
    for checkpoint in (folder, folder / "model.ckpt-7"):
        assert main([*command, "--restore", str(checkpoint)]) == 0
        assert values(capsys) == {"y:0": 7}
    assert main([*command, "--init", "init"]) == 0
    assert values(capsys) == {"y:0": 7}
    assert main([*command, "--restore", str(tmp_path / "none")]) == failure.UNREADABLE_GRAPH
    assert main([*command, "--restore", "a", "--checkpoint", "b"]) == failure.USAGE
    assert "--restore only reads" in capsys.readouterr().err


def test_an_export_leaves_out_what_is_no_tensor(
    exported: Callable[[str], str], tmp_path: Path, capsys: Output
) -> None:
    folder = exported("keras_dense")
    for kind in ("npz", "safetensors"):
        target = tmp_path / f"kept.{kind}"
        assert main(["checkpoint", "export", folder, str(target)]) == 0
        assert "left out _CHECKPOINTABLE_OBJECT_GRAPH" in capsys.readouterr().err
    with np.load(tmp_path / "kept.npz") as kept:
        assert all(value.dtype.kind == "f" for value in kept.values())
        assert len(kept.files) == 8


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_frozen_graph_may_be_called_as_a_saved_model_is(
    is_folder: bool, linear: str, tmp_path: Path, capsys: Output
) -> None:
    folder = tmp_path / "frozen"
    folder.mkdir()
    file = folder / "saved_model.pb"
    shutil.copy(linear, file)
    path = str(folder if is_folder else file)
    assert main(["run", path]) == 0
    assert "x:0" in capsys.readouterr().out
    assert main(["run", path, "--tag", "serve"]) == failure.UNREADABLE_GRAPH
    assert "holds no SavedModel" in capsys.readouterr().err
    file.write_bytes(b"nothing")
    assert main(["run", path]) == failure.UNREADABLE_GRAPH
