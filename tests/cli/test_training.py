"""`flowengine run --checkpoint`: training runs that begin, are saved, and go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from flowengine.checkpoint import BundleReader
from flowengine.checkpoint.state import latest_checkpoint
from flowengine.cli import failure
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]


@pytest.fixture
def theirs(root: Path, tmp_path: Path) -> Path:
    """A copy of a run that TensorFlow has begun: 50 steps, saved."""
    return Path(shutil.copytree(root / "tests" / "train" / "run_of_tensorflow", tmp_path / "theirs"))


def test_a_run_of_tensorflow_goes_on(theirs: Path, capsys: Output) -> None:
    losses = json.loads((theirs / "losses.json").read_text())
    command = ["run", "--meta", str(theirs / "model.ckpt-50.meta"), "--checkpoint", str(theirs), "--resume"]
    command += ["--save-every", "20", "--steps", "50", "--fetch", "loss", "--json"]
    for last in (99, 149):
        assert main(command) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["values"]["loss:0"]["value"] == losses[last]
        assert document["checkpoint"] == {
            "resumed": str(theirs / f"model.ckpt-{last - 49}"),
            "saved": str(theirs / f"model.ckpt-{last + 1}"),
        }
    # The SaverDef keeps five, of both runs.
    steps = sorted(int(path.stem.rpartition("-")[2]) for path in theirs.glob("*.index"))
    assert steps == [90, 100, 120, 140, 150]
    assert len(list(theirs.glob("*.meta"))) == 5


def test_a_run_begins_as_the_meta_graph_says(theirs: Path, tmp_path: Path, capsys: Output) -> None:
    losses = json.loads((theirs / "losses.json").read_text())
    fresh = tmp_path / "fresh"
    command = ["run", "--meta", str(theirs / "model.ckpt-50.meta"), "--checkpoint", str(fresh)]
    command += ["--steps", "10", "--fetch", "loss", "--json"]
    assert main([*command, "--resume"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["values"]["loss:0"]["value"] == losses[9]
    assert document["checkpoint"] == {"resumed": None, "saved": str(fresh / "model.ckpt-10")}
    assert main(command) == failure.USAGE
    assert "there is model.ckpt-10 already: add --resume" in capsys.readouterr().err


def test_a_graph_alone_is_saved_with_all_its_variables(counter: str, tmp_path: Path, capsys: Output) -> None:
    folder = tmp_path / "run"
    command = ["run", counter, "--init", "init", "--target", "count", "--checkpoint", str(folder), "--resume"]
    assert main([*command, "--steps", "3"]) == 0
    assert f"saved {folder / 'model.ckpt-3'}" in capsys.readouterr().err
    assert main([*command, "--steps", "2", "--final", "read", "--save-every", "1"]) == 0
    assert capsys.readouterr().out == "read:0 = 5.0\n"
    latest = latest_checkpoint(str(folder))
    assert latest == str(folder / "model.ckpt-5")
    with BundleReader(latest) as reader:
        assert reader.read(b"v") == np.float32(5)


def test_wrong_use(counter: str, theirs: Path, tmp_path: Path, capsys: Output) -> None:
    folder = str(tmp_path / "run")
    assert main(["run"]) == failure.USAGE
    assert main(["run", counter, "--meta", counter]) == failure.USAGE
    assert main(["run", counter, "--resume"]) == failure.USAGE
    assert "need --checkpoint DIR" in capsys.readouterr().err
    assert main(["run", counter, "--checkpoint", folder]) == failure.USAGE
    assert "add --target" in capsys.readouterr().err
    assert main(["run", counter, "--target", "count", "--checkpoint", counter]) == failure.STEP_ERROR
    assert not Path(folder).exists()


def test_a_damaged_checkpoint_is_told(theirs: Path, capsys: Output) -> None:
    command = ["run", "--meta", str(theirs / "model.ckpt-50.meta"), "--checkpoint", str(theirs), "--resume"]
    data = theirs / "model.ckpt-50.data-00000-of-00001"
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    assert main(command) == failure.UNREADABLE_GRAPH
    assert "cannot resume from" in (told := capsys.readouterr().err)
    assert "DataLossError" in told
    (theirs / "checkpoint").write_text("?")
    assert main(command) == failure.UNREADABLE_GRAPH
