"""The shell's habits: suggestions, the version, help in sections, completion, one tagline."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import numpy as np
import pytest

import flowengine as fe
from flowengine.checkpoint import BundleWriter
from flowengine.cli import failure
from flowengine.cli.main import EXAMPLES, main
from flowengine.cli.run import command as run_command
from flowengine.cli.running.options import SECTIONS
from flowengine.core import dtypes

Output = pytest.CaptureFixture[str]
ROOT: Final = Path(__file__).resolve().parents[2]
TAGLINE: Final = "runs TensorFlow graphs without TensorFlow"
MODEL: Final = ROOT / "docs" / "examples" / "keras_digits"


@pytest.mark.parametrize(
    ("line", "suggested"),
    [
        (["rum", "x"], "Did you mean run?"),
        (["Inspect"], "Did you mean inspect?"),
        (["checkpoint", "shwo"], "Did you mean show?"),
        (["cluster", "staus"], "Did you mean status?"),
        (["graph.pb"], "Did you mean flowengine run graph.pb or flowengine inspect graph.pb?"),
        (["my graph.pb"], "Did you mean flowengine run 'my graph.pb'"),
        (["run", "--fetchs", "y"], "--fetch"),
    ],
)
def test_what_is_mistyped_is_suggested(line: list[str], suggested: str, capsys: Output) -> None:
    assert main(line) == failure.USAGE
    assert suggested in capsys.readouterr().err


def test_nothing_is_suggested_for_what_is_like_no_command(capsys: Output) -> None:
    assert main(["frobnicate"]) == failure.USAGE
    assert "Did you mean" not in capsys.readouterr().err


def test_the_version_has_those_of_what_computes(capsys: Output) -> None:
    assert main(["-V"]) == 0
    line = capsys.readouterr().out
    numpy = re.escape(np.__version__)
    onednn = r"(no oneDNN|oneDNN 3\.\d+(\.\d+)?)"  # as the library's file is named
    assert re.fullmatch(rf"flowengine \S+ \(Python \d+\.\d+\.\d+\S*, NumPy {numpy}, {onednn}\)\n", line)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == line


def test_the_help_has_all_options_in_sections_with_the_common_ones_first(capsys: Output) -> None:
    named = [name for names in SECTIONS.values() for name in names]
    options = [each.name for each in run_command.params if isinstance(each, click.Option)]
    assert sorted([*named, "import", "debug"]) == sorted(name for name in options if name)
    assert main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    titles = [text.index(f"\n{title}:\n") for title in [*SECTIONS, "Other options"]]
    assert titles == sorted(titles)
    assert titles[0] < text.index("  -x, --feed") < titles[1]
    assert text.count("\n  -x, --feed") == 1


def test_there_is_one_tagline(capsys: Output) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sentence = f"FlowEngine {TAGLINE}"
    assert project["description"] == sentence
    for page in ("README.md", "docs/README.md"):
        assert (ROOT / page).read_text().split("\n")[2].startswith(sentence)
    assert EXAMPLES.startswith(sentence)
    assert (fe.__doc__ or "").startswith(sentence)
    assert main(["--help"]) == 0
    assert TAGLINE.replace("runs", "Run") in capsys.readouterr().out


@pytest.fixture
def completed(tmp_path: Path) -> Callable[..., list[str]]:
    """Ask bash how a line goes on after its last word, which it parts at `=` and `:` as readline does."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "flowengine").write_text(f'#!/bin/sh\nexec {sys.executable} -m flowengine "$@"\n')
    (binaries / "flowengine").chmod(0o755)
    script = """
        eval "$(_FLOWENGINE_COMPLETE=bash_source flowengine)"
        compopt() { local IFS=' '; echo "compopt $*"; }
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _flowengine_completion "$1"; printf '%s\\n' "${COMPREPLY[@]}"
    """

    def complete(*words: str) -> list[str]:
        parts = [part for word in words for part in re.split(r"([=:])", word) if part or part == word]
        done = subprocess.run(
            ["bash", "-c", script, "bash", "flowengine", *parts],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    return complete


@pytest.mark.skipif(sys.platform == "win32", reason="there is no bash")
def test_bash_completes_tensors_signatures_and_files(
    linear: str, tmp_path: Path, completed: Callable[..., list[str]]
) -> None:
    assert completed("run", linear, "--feed", "") == ["compopt -o nospace", "x="]
    assert completed("run", linear, "--fetch", "pro") == ["product/", "product"]
    assert completed("run", str(MODEL), "--signature", "serving") == ["serving_default"]
    assert completed("run", str(MODEL), "--feed", "i") == ["compopt -o nospace", "image="]
    assert completed("run", str(MODEL), "--fetch", "") == ["scores"]
    assert completed("rum"[:2]) == ["run"]
    (tmp_path / "cats").mkdir()
    (tmp_path / "nine.png").touch()
    assert completed("run", linear, "--feed", "x=ni") == ["nine.png"]
    assert completed("run", linear, "--feed", "x=c")[-1] == "cats/"
    assert completed("run", str(tmp_path / "none.pb"), "--feed", "x") == [""]


def test_bash_completes_scope_by_scope_and_checkpoints(
    tmp_path: Path, save: Callable[[fe.Graph], str], completed: Callable[..., list[str]]
) -> None:
    graph = fe.Graph()
    for name in ("dense/kernel", "dense/inner/one", "dense/inner/two"):
        graph.ops.NoOp(name=name)
    path = save(graph)
    assert completed("run", path, "--target", "den")[-1] == "dense/"
    assert completed("run", path, "--target", "dense/") == ["dense/kernel", "dense/inner/"]
    with BundleWriter(str(tmp_path / "model.ckpt"), sync=False) as writer:
        writer.add(b"weights", np.zeros(2, np.float32), dtypes.float32)
    assert completed("checkpoint", "show", str(tmp_path / "mod")) == [str(tmp_path / "model.ckpt")]
    assert completed("run", path, "--restore", str(tmp_path / "mod")) == [str(tmp_path / "model.ckpt")]
    assert completed("checkpoint", "show", str(tmp_path / "model.ckpt"), "wei") == ["weights"]
