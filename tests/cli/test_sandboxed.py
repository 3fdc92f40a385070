"""`--sandbox` and `flowengine sandbox`: the same output from a locked process, and nothing else of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli.sandbox.running import _named, _size
from flowengine.sandbox import confine

needs_box = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)


def _flowengine(*arguments: str | Path, stdin: bytes | None = None) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "flowengine", *map(str, arguments)]
    ran = subprocess.run(
        command, capture_output=True, timeout=60, input=stdin, env={**os.environ, "NO_COLOR": "1"}
    )
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    g.ops.Add(x, x, name="y")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    g.ops.ReadFile(str(secret), name="secret")
    g.ops.Fill(g.ops.Reshape(g.placeholder("int32", [], name="n"), [1]), 1.0, name="filled")
    path = tmp_path / "graph.pb"
    path.write_bytes(g.to_graph_def().SerializeToString())
    return path


@needs_box
def test_verbs_print_what_they_print_elsewhere(graph: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.npy"
    np.save(values, np.array([1, 2], np.float32))
    lines: list[list[str | Path]] = [
        ["inspect", graph],
        ["run", graph, "--feed", f"x={values}", "--fetch", "y"],
        ["plan", graph, "--fetch", "y"],
    ]
    for each in lines:
        assert _flowengine(*each, "--sandbox") == _flowengine(*each)


@needs_box
def test_a_graph_from_standard_input(graph: Path) -> None:
    arguments = ("run", "-", "--feed", "x=[1]", "--fetch", "y", "--sandbox")
    assert _flowengine(*arguments, stdin=graph.read_bytes())[:2] == (0, "y:0  float32 [1]\n[2.]\n")


_HALVES = """
import mmap
from flowengine import OpDef
from flowengine.kernels.registry import kernel
from flowengine.ops.load import registry

registry().register(OpDef.parse("Halve(x: T) -> y: T", "T: {float, double}"))
#: Not to be had once system calls are closed.
SHARED = mmap.mmap(-1, 4096)


@kernel("Halve")
def halve(x):
    try:
        mmap.mmap(-1, 4096)
    except OSError:
        return x / 2
    return x
"""


@needs_box
def test_modules_are_imported_before_the_process_has_locked_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "halves.py").write_text(_HALVES)
    ops = fe.OpRegistry()
    ops.register(fe.OpDef.parse("Halve(x: T) -> y: T", "T: {float, double}"))
    ops.register(fe.OpDef.parse("Placeholder() -> output: dtype", "dtype: type; shape: shape = unknown"))
    g = fe.Graph(registry=ops)
    getattr(g.ops, "Halve")(g.placeholder("float32", [], name="x"), name="half")  # noqa: B009 (no stub knows it)
    (tmp_path / "graph.pb").write_bytes(g.to_graph_def().SerializeToString())
    monkeypatch.setenv("PYTHONPATH", str(Path(fe.__file__).resolve().parents[1]))
    monkeypatch.chdir(tmp_path)
    run = ("run", "graph.pb", "--feed", "x=3", "--fetch", "half", "--import", "halves")
    assert _flowengine(*run) == (0, "half:0 = 3.0\n", "")
    assert _flowengine(*run, "--sandbox") == (0, "half:0 = 1.5\n", "")


@needs_box
def test_a_checkpoint_is_read_by_a_locked_process(tmp_path: Path) -> None:
    prefix = Path(__file__).parents[1] / "train" / "run_of_tensorflow" / "model.ckpt-50"
    for verb in ("ls", "show"):
        plain = _flowengine("checkpoint", verb, prefix)
        assert plain[0] == 0
        assert _flowengine("checkpoint", verb, prefix, "--sandbox") == plain
    broken = tmp_path / "model.ckpt-1.index"
    broken.write_bytes(b"\x1b[2J" * 100)
    code, _, error = _flowengine("checkpoint", "ls", tmp_path / "model.ckpt-1", "--sandbox")
    assert code != 0
    assert "\x1b" not in error


@needs_box
def test_files_that_are_not_named_stay_closed(graph: Path, tmp_path: Path) -> None:
    code, said, error = _flowengine("run", graph, "--fetch", "secret", "--sandbox")
    assert (code, said) == (1, "")
    assert "Permission denied" in error
    out = tmp_path / "out"
    out.mkdir()
    wanted: list[str | Path] = [
        "run",
        graph,
        "--feed",
        "x=[1]",
        "--fetch",
        "y",
        "--output",
        out / "y.npz",
        "--sandbox",
    ]
    assert _flowengine(*wanted)[0] == 1
    assert list(out.iterdir()) == []
    assert _flowengine(*wanted, "--sandbox-write", out)[0] == 0
    assert np.load(out / "y.npz")["y:0"] == [2]


@needs_box
def test_what_takes_too_much_is_ended(graph: Path) -> None:
    arguments = (
        "run",
        graph,
        "--feed",
        "n=400000000",
        "--fetch",
        "filled",
        "--sandbox",
        "--sandbox-memory",
        "50MB",
    )
    code, _, error = _flowengine(*arguments)
    assert code != 0
    assert "--sandbox-memory" in error or "memory" in error
    code, _, error = _flowengine("inspect", graph, "--sandbox", "--sandbox-seconds", "0.01")
    assert (code, "--sandbox-seconds" in error) == (6, True)


@needs_box
def test_check_says_what_there_is() -> None:
    assert _flowengine("sandbox", "--check")[0] == 0
    found = json.loads(_flowengine("sandbox", "--check", "--json")[1])
    assert {level: each["there"] for level, each in found.items()} == dict.fromkeys(confine.LEVELS, True)


def test_names_on_the_command_line(tmp_path: Path) -> None:
    for name in ("cat.jpg", "model.ckpt.index", "model.ckpt.data-00000-of-00001"):
        (tmp_path / name).touch()
    found = _named(["run", f"--feed=x={tmp_path}/cat.jpg", f"{tmp_path}/model.ckpt", "y", "-"])
    assert sorted(Path(each).name for each in found) == sorted(each.name for each in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("2kB", 2000), ("1.5 GiB", 3 << 29), ("500MB", 500_000_000)]
)
def test_sizes(text: str, size: int) -> None:
    assert _size(text) == size


@pytest.mark.parametrize("text", ["", "much", "0", "-1", "5 TB"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(Exception, match="write a size"):
        _size(text)
