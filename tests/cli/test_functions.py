"""SavedModels without signatures: their functions are listed, and called by name."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.ir.proto import SavedModel

Output = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A module with functions, saved by TensorFlow 2, of which the signatures are taken away."""
    place = tmp_path / "two words"
    with zipfile.ZipFile(Path(__file__).parents[1] / "saved_model" / "recorded" / "module.zip") as packed:
        packed.extractall(place)
    file = place / "saved_model.pb"
    saved = SavedModel.FromString(file.read_bytes())
    saved.meta_graphs[0].signature_def.clear()
    file.write_bytes(saved.SerializeToString())
    return str(place)


def test_functions_are_listed_and_no_ops_of_the_saver(folder: str, capsys: Output) -> None:
    assert main(["run", folder]) == 0
    shown = capsys.readouterr().out
    assert "functions:" in shown
    assert "saver_filename" not in shown
    assert "StatefulPartitionedCall" not in shown
    assert f"flowengine run '{folder}' --function " in shown


def test_a_function_is_called_by_its_name(folder: str, capsys: Output) -> None:
    assert main(["run", folder, "--function", "look", "-x", 'words=["y"]', "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["values"]
    assert found["ids"]["value"] == [1]
    assert main(["plan", folder, "--function", "look"]) == 0
    assert "RestoreV2" not in capsys.readouterr().out


def test_what_cannot_be_called(folder: str, capsys: Output) -> None:
    assert main(["run", folder, "--function", "nothing"]) == failure.USAGE
    assert "there is no such function (there are: " in capsys.readouterr().err
    assert main(["run", folder, "--function", "look", "--signature", "x"]) == failure.USAGE
    assert main(["run", folder, "--function", "look"]) == failure.BAD_FEED
    assert "add --feed words=SOURCE" in capsys.readouterr().err


def test_a_function_is_frozen(folder: str, tmp_path: Path, capsys: Output) -> None:
    frozen = str(tmp_path / "frozen.pb")
    assert main(["run", folder, "--function", "add", "-x", "x=[1, 2]", "--json"]) == 0
    called = json.loads(capsys.readouterr().out)["values"]["output_0"]["value"]
    assert main(["freeze", folder, "--function", "add", "-o", frozen]) == 0
    told = re.fullmatch(rf"{re.escape(frozen)}: (\S+) of (\S+)\n", capsys.readouterr().out)
    assert told is not None
    output, fed = told.groups()
    assert main(["run", frozen, "-x", f"{fed}=[1, 2]", "-y", output, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"][output]["value"] == called
    assert main(["freeze", folder, "--function", "nothing", "-o", frozen, "--force"]) == failure.USAGE
