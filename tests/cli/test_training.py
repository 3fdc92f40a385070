"""`flowengine run --checkpoint`: training runs that begin, are saved, and go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.checkpoint import BundleReader
from flowengine.checkpoint.state import latest_checkpoint
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.ir.proto import MetaGraphDef, VariableDef
from flowengine.train.pipelines import local_variables_of

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
        assert np.float32(document["values"]["loss:0"]["value"]) == np.float32(losses[last])
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
    assert np.float32(document["values"]["loss:0"]["value"]) == np.float32(losses[9])
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


def test_a_run_that_recovers_makes_so_many_steps_in_all(theirs: Path, tmp_path: Path, capsys: Output) -> None:
    losses = json.loads((theirs / "losses.json").read_text())
    command = ["run", "--meta", str(theirs / "model.ckpt-50.meta"), "--checkpoint", str(theirs), "--recover"]
    command += ["--save-every", "30", "--steps", "120", "--fetch", "loss", "--final", "global_step", "--json"]
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert np.float32(document["values"]["loss:0"]["value"]) == np.float32(losses[119])
    assert document["values"]["global_step:0"]["value"] == 120
    assert document["steps"] == 70
    saved = str(theirs / "model.ckpt-120")
    assert document["checkpoint"] == {
        "resumed": str(theirs / "model.ckpt-50"),
        "saved": saved,
        "restarts": 0,
    }
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["steps"] == 0
    assert document["checkpoint"]["saved"] == saved
    assert main(["run", str(theirs), "--recover"]) == failure.USAGE
    assert "--recover need --checkpoint DIR" in capsys.readouterr().err


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


def test_queue_runners_run_beside_the_steps_until_the_input_ends(tmp_path: Path, capsys: Output) -> None:
    graph = fe.Graph()
    numbers = fe.train.range_input_producer(graph, 5, num_epochs=2, shuffle=False)
    total = graph.ops.VariableV2(shape=[], dtype="int32", name="total")
    step = graph.ops.VariableV2(shape=[], dtype="int64", name="steps_done")
    graph.group(graph.ops.Assign(total, np.int32(0)), graph.ops.Assign(step, np.int64(0)), name="my_init")
    added = graph.ops.AssignAdd(total, numbers.dequeue()[0], name="sum")
    with graph.control_dependencies([added]):
        graph.ops.AssignAdd(step, np.int64(1), name="my_train")
    meta = MetaGraphDef(graph_def=graph.to_graph_def())
    nodes = {"train_op": ["my_train"], "init_op": ["my_init"], "global_step": ["steps_done:0"]}
    for key, names in nodes.items():
        meta.collection_def[key].node_list.value.extend(names)
    for runner in fe.train.queue_runners_of(graph):
        meta.collection_def["queue_runners"].bytes_list.value.append(runner.to_proto().SerializeToString())
    for each in local_variables_of(graph):
        local = VariableDef(
            variable_name=each.snapshot, initializer_name=each.initializer, snapshot_name=each.snapshot
        )
        meta.collection_def["local_variables"].bytes_list.value.append(local.SerializeToString())
    for name in ("total", "steps_done"):
        saved = VariableDef(variable_name=f"{name}:0", initializer_name="my_init")
        meta.collection_def["variables"].bytes_list.value.append(saved.SerializeToString())
    path = tmp_path / "model.meta"
    path.write_bytes(meta.SerializeToString())
    command = ["run", "--meta", str(path), "--checkpoint", str(tmp_path / "run"), "--resume", "--json"]
    for rounds in (1, 2):
        assert main([*command, "--steps", "100", "--fetch", "sum"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["steps"] == 10
        assert document["values"]["sum:0"]["value"] == 20 * rounds
        assert document["checkpoint"]["saved"] == str(tmp_path / "run" / f"model.ckpt-{10 * rounds}")
