"""Faults of the command line that are told before a step runs, and output that fits a screen."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.cli.tasks.worker import start_logging

Output = pytest.CaptureFixture[str]


@pytest.fixture
def trap(save: Callable[[fe.Graph], str], tmp_path: Path) -> tuple[str, Path]:
    """`y` (2 numbers), which leaves a file when it runs, and that file."""
    graph = fe.Graph()
    trace = tmp_path / "ran"
    done = graph.ops.WriteFile(str(trace), "x", name="trace")
    with graph.control_dependencies([done]):
        graph.ops.Identity([1.0, 2.0], name="y")
    return save(graph), trace


def test_a_missing_folder(trap: tuple[str, Path], tmp_path: Path, capsys: Output) -> None:
    path, trace = trap
    for output in (tmp_path / "none" / "y.npz", tmp_path / "none" / "y.json"):
        assert main(["run", path, "--fetch", "y", "-o", str(output)]) == failure.USAGE
        assert f"there is no folder {tmp_path / 'none'}" in capsys.readouterr().err
    for verb in (["freeze", path, "--fetch", "y"], ["gradients", path, "--of", "y", "--by", "y"]):
        assert main([*verb, "-o", str(tmp_path / "none" / "f.pb")]) == failure.USAGE
        assert "there is no folder" in capsys.readouterr().err
    assert not trace.exists()


def test_a_file_that_is_there(trap: tuple[str, Path], tmp_path: Path, capsys: Output) -> None:
    path, trace = trap
    for verb, name in ((["run"], "y.npz"), (["freeze"], "f.pb")):
        output = tmp_path / name
        output.write_bytes(b"precious")
        command = [*verb, path, "--fetch", "y", "-o", str(output)]
        assert main(command) == failure.USAGE
        assert "add --force to replace it" in capsys.readouterr().err
        assert output.read_bytes() == b"precious"
        assert not trace.exists()
        assert main([*command, "--force"]) == 0
        assert output.read_bytes() != b"precious"
        trace.unlink(missing_ok=True)


def test_labels_that_do_not_fit(trap: tuple[str, Path], tmp_path: Path, capsys: Output) -> None:
    path, trace = trap
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\nc\n")
    assert main(["run", path, "--fetch", "y", "--labels", str(labels)]) == failure.STEP_ERROR
    assert "no value has 3 numbers in its last dimension (y:0 [2])" in capsys.readouterr().err
    assert not trace.exists()
    labels.write_text("a\nb\n")
    assert main(["run", path, "--fetch", "y", "--labels", str(labels)]) == 0


def test_nodes_that_ask_for_a_missing_device_are_told_in_a_line(linear: str, capsys: Output) -> None:
    command = ["run", linear, "--feed", "x=[[1, 2]]", "--fetch", "y", "--place", "*=GPU:0"]
    assert main([*command, "--soft-placement"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "soft placement" in line]
    assert len(lines) <= 1


def test_the_log_goes_to_the_standard_error_of_the_run(linear: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("flowengine.placement")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    command = ["run", linear, "--feed", "x=[[1, 2]]", "--fetch", "y"]
    command += ["--place", "*=GPU:0", "--soft-placement"]
    for more in (["--log-device-placement"], []):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        assert main([*command, *more]) == 0
        assert [line for line in stream.getvalue().splitlines() if "soft placement" in line]
        assert "Logging error" not in stream.getvalue()
        stream.close()


def test_a_large_graph_fits_a_screen(save: Callable[[fe.Graph], str], capsys: Output) -> None:
    graph = fe.Graph()
    for number in range(300):
        v = graph.ops.VariableV2(shape=[], dtype="float32", name=f"v{number}")
        x = graph.placeholder("float32", [], name=f"x{number}")
        op = ("Neg", "Abs", "Exp", "Sin", "Cos", "Tan", "Sqrt", "Floor", "Ceil", "Sign", "Tanh")[number % 11]
        getattr(graph.ops, op)(graph.ops.Mul(v, x), name=f"y{number}")
    path = save(graph)
    assert main(["inspect", path]) == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) <= 60
    assert "variables: 300\n" in shown
    assert "  and 290 more: --all" in shown
    assert main(["inspect", path, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 900


def test_a_second_worker_of_a_process_logs_each_line_once(capsys: Output) -> None:
    root = logging.getLogger("flowengine")
    handlers, level = root.handlers[:], root.level
    try:
        for _ in range(3):
            start_logging("info", as_json=False)
        logging.getLogger("flowengine.worker").info("one line")
        assert capsys.readouterr().err.count("one line") == 1
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
