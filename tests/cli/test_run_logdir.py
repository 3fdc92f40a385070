"""`flowengine run --logdir`: the graph and the values of steps in event files."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main
from tests.tools.summaries.events import events, files_of, message, tensor_of, values


@pytest.fixture
def counting(save: Callable[[fe.Graph], str]) -> str:
    """A graph whose step counts, and has a number, an array, a text and a summary to fetch."""
    graph = fe.Graph()
    step = graph.ops.VariableV2(shape=[], dtype="int64", name="global_step")
    graph.ops.Assign(step, graph.constant(0, "int64"), name="init")
    after = graph.ops.AssignAdd(step, graph.constant(1, "int64"), name="train")
    loss = graph.ops.Cast(after, DstT="float32", name="loss")
    graph.ops.Pack([loss, loss], name="pair")
    graph.ops.ScalarSummary("from_op", loss, name="summary")
    graph.constant(b"text", name="text")
    return save(graph)


def tags(folder: Path) -> list[tuple[int, str]]:
    return [(step, tag) for step, tag, _ in values(folder)]


def test_each_step_writes_its_numbers_arrays_and_summaries(counting: str, tmp_path: Path) -> None:
    fetches = [part for name in ("loss", "pair", "summary", "text") for part in ("-y", name)]
    logs = tmp_path / "new" / "logs"
    assert main(["run", counting, "--init", "init", *fetches, "--steps", "2", "--logdir", str(logs)]) == 0
    assert tags(logs) == [(step, tag) for step in (1, 2) for tag in ("loss", "pair", "from_op")]
    assert struct.unpack("<f", tensor_of(logs, "loss")[4]) == (2.0,)
    assert sum(4 in event for event in events(logs)) == 1


@pytest.mark.parametrize("recover", [False, True])
def test_the_times_of_a_traced_step_are_written_too(recover: bool, counting: str, tmp_path: Path) -> None:
    logs, model = tmp_path / "logs", tmp_path / "model"
    training = ["--checkpoint", str(model), "--recover"] if recover else []
    traced = [
        "run",
        counting,
        "--init",
        "init",
        "-t",
        "train",
        "-y",
        "loss",
        "--logdir",
        str(logs),
        *training,
    ]
    assert main([*traced, "--steps", "3", "--profile"]) == 0
    (found,) = (event for event in events(logs) if 8 in event)
    assert found[2] == 3
    assert message(found[8])[1] == b"step 3"


@pytest.mark.parametrize("option", ["--resume", "--recover"])
def test_a_training_run_that_resumes_has_lost_steps_forgotten(
    option: str, counting: str, tmp_path: Path
) -> None:
    logs, model = tmp_path / "logs", tmp_path / "model"
    training = ["run", counting, "--init", "init", "-t", "train", "-y", "loss", "--logdir", str(logs)]
    assert main([*training, "--checkpoint", str(model), "--steps", "3"]) == 0
    assert tags(logs) == [(1, "loss"), (2, "loss"), (3, "loss")]
    steps = "2" if option == "--resume" else "5"
    assert main([*training, "--checkpoint", str(model), option, "--steps", steps]) == 0
    assert len(files_of(logs)) == 2
    opening = events(logs)[1]
    assert (opening[2], message(opening[7])) == (4, {1: 1})
    assert tags(logs) == [(4, "loss"), (5, "loss")]


def test_a_folder_that_cannot_be_made_is_one_line(
    counting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "logs"
    code = main(["run", counting, "--init", "init", "-y", "loss", "--logdir", str(folder)])
    said = capsys.readouterr()
    assert (code, said.out) == (failure.STEP_ERROR, "")
    assert str(folder) in said.err
    assert said.err.count("\n") == 1
