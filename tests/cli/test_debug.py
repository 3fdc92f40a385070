"""`flowengine debug`: commands from standard input stop a step before its nodes."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]
Debug = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def root(save: Callable[[fe.Graph], str]) -> str:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    with graph.name_scope("layer"):
        y = fe.sqrt(fe.log(x, name="log"), name="root")
    fe.reduce_sum(y, name="y")
    return save(graph)


@pytest.fixture
def debug(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> Debug:
    """Call the command with lines on standard input; return the code, what it prints, and its errors."""

    def call(lines: list[str], *arguments: object) -> tuple[int, list[str], str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        code = main(["debug", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return call


def test_a_step_from_its_first_node_to_its_end(debug: Debug, root: str) -> None:
    code, out, err = debug(["", "where", "step 2"], root, "-x", "x=[1, 1]", "-y", "y")
    assert (code, err) == (0, "")
    assert out == [
        "next layer/log (Log)",
        "  input 0: float32 [2] from 1 to 1, mean 1",
        "(debug) ",
        "ran layer/log: float32 [2] from 0 to 0, mean 0",
        "next layer/root (Sqrt)",
        "  input 0: float32 [2] from 0 to 0, mean 0",
        "(debug) where",
        "next layer/root (Sqrt)",
        "  input 0: float32 [2] from 0 to 0, mean 0",
        "(debug) step 2",
        "ran y: float32 [] from 0 to 0, mean 0",
        "the step has ended",
        "y:0 = 0.0",
    ]


def test_breaks_and_names(debug: Debug, root: str) -> None:
    lines = ["break y", "break", "go", "delete layer/root", "break", "g"]
    code, out, _ = debug(lines, root, "-x", "x=[4, 4]", "-y", "y", "--break", "layer/root")
    assert code == 0
    assert out[2:5] == ["(debug) break y", "(debug) break", "layer/root, y"]
    assert out[5:8:2] == ["(debug) go", "next layer/root (Sqrt)"]
    after = out[out.index("(debug) delete layer/root") :]
    assert after[1:3] == ["(debug) break", "y"]
    assert after[5] == "next y (Sum)"


def test_the_first_input_that_is_not_finite(debug: Debug, root: str) -> None:
    code, out, _ = debug(["nan", "inputs", "outputs"], root, "-x", "x=[1, 0.5]", "-y", "y")
    assert code == 0
    assert "next y (Sum)" in out
    answer = out[out.index("(debug) inputs") + 1 :]
    assert answer[:2] == ["input 0  float32 [2]", "[ 0., nan]"]
    assert answer[-4:-1] == ["layer/root", "output 0  float32 [2]", "[ 0., nan]"]
    assert out[-1] == "left before the end of the step"


def test_values_are_kept_in_a_file(debug: Debug, root: str, tmp_path: Path) -> None:
    file = tmp_path / "values.npz"
    lines = ["go layer/root", f"save {file}", f"save {file}", "save", "quit"]
    code, out, _ = debug(lines, root, "-x", "x=[1, 1]", "-y", "y")
    assert code == 0
    assert f"2 values in {file}" in out
    assert f"{file} exists already: name another file" in out
    assert "save FILE: name one .npz file" in out
    with np.load(file) as found:
        assert {name: found[name].tolist() for name in found} == {"input_0": [0, 0], "output_0": [0, 0]}


def test_variables_are_restored_or_initialized_before(
    debug: Debug, save: Callable[[fe.Graph], str], tmp_path: Path
) -> None:
    graph = fe.Graph()
    v = graph.variable(3.0, name="v")
    fe.square(v, name="y")
    with fe.blocking.Session(graph) as session:
        session.initialize()
        session.run(v.assign(5.0))
        prefix = fe.blocking.Saver().save(session, tmp_path / "elsewhere" / "model")
    path = save(graph)
    code, out, _ = debug(["go"], path, "-y", "y", "--restore", prefix)
    assert (code, out[-1]) == (0, "y:0 = 25.0")
    assert v.initializer is not None
    code, out, _ = debug(["go"], path, "-y", "y", "--init", v.initializer.name)
    assert (code, out[-1]) == (0, "y:0 = 9.0")
    code, _, err = debug(["go"], path, "-y", "y")
    assert code == failure.STEP_ERROR
    assert "--restore" in err or "--init" in err


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("frobnicate", "frobnicate is no command: help lists them"),
        ("go root", "no node of the graph or its functions is called 'root'; did you mean 'layer/root'?"),
        ("step none", "step none: give a number of nodes"),
        ("delete y", "there is no break at y"),
        ("delete", "delete NAME: name the break to forget"),
        ("outputs", "no node has run yet"),
        ('go "', "No closing quotation"),
        ("e", "e is no command: help lists them"),
        ("help", "step [N]      run the next node, or N nodes; so does an empty line"),
    ],
)
def test_a_line_that_is_not_understood_leaves_the_step_as_it_is(
    debug: Debug, root: str, line: str, answer: str
) -> None:
    code, out, _ = debug([line, "where"], root, "-x", "x=[1, 1]", "-y", "y")
    assert code == 0
    assert out[3].startswith(answer)
    assert "next layer/log (Log)" in out[4:]
    assert out[-1] == "left before the end of the step"


def test_a_node_that_fails_ends_the_command(debug: Debug, save: Callable[[fe.Graph], str]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [1], name="x")
    graph.ops.CheckNumerics(fe.log(x), message="bad", name="checked")
    code, out, err = debug(["go checked", "step", "where"], save(graph), "-x", "x=[0]", "-y", "checked")
    assert code == failure.STEP_ERROR
    assert "bad" in err
    assert "checked" in err
    assert out[-1] == "(debug) step"


def test_requests_that_do_not_fit_are_refused(debug: Debug, root: str, tmp_path: Path) -> None:
    code, _, err = debug([], "-", "-y", "y")
    assert code == failure.USAGE
    assert "standard input has the commands" in err
    code, _, err = debug([], root, "-x", "x=-", "-y", "y")
    assert code == failure.USAGE
    table = tmp_path / "rows.csv"
    table.write_text("x\n1\n2\n")
    code, _, err = debug([], root, "-x", table, "-y", "y")
    assert code == failure.USAGE
    code, _, err = debug([], root, "-x", "x=[1, 1]", "-y", "y", "--break", "nowhere")
    assert code != 0
    assert "no node of the graph or its functions is called 'nowhere'" in err
    code, _, err = debug(["go"], root, "-y", "y")
    assert code == failure.BAD_FEED
    assert "x" in err


def test_images_are_fed_as_run_feeds_them(
    save: Callable[[fe.Graph], str], debug: Debug, tmp_path: Path
) -> None:
    image = pytest.importorskip("PIL.Image")
    graph = fe.Graph()
    graph.ops.Neg(graph.placeholder("float32", [1, 2, 1], name="x"), name="y")
    picture = tmp_path / "x.png"
    image.fromarray(np.array([[51, 255]], np.uint8)).save(picture)
    code, out, err = debug(["go"], save(graph), "-x", f"x={picture}", "--image-scale", "1/255")
    assert (code, err) == (0, "")
    assert re.findall(r"-[0-9.]+", "".join(out[-2:])) == ["-0.20000002", "-1."]


def test_a_full_disk_leaves_no_part_of_a_file(
    root: str, debug: Debug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: io.BytesIO, *_: object, **__: object) -> None:
        file.write(b"a part")
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(np.lib.format, "write_array", full)
    file = tmp_path / "values.npz"
    code, out, err = debug([f"save {file}", f"save {file}", "quit"], root, "-x", "x=[1, 2]")
    assert (code, err) == (0, "")
    assert out.count(f"{file}: No space left on device") == 2
    assert not file.exists()


def test_a_value_that_no_file_can_hold_does_not_end_the_step(
    save: Callable[[fe.Graph], str], debug: Debug, tmp_path: Path
) -> None:
    graph = fe.Graph()
    graph.ops.StringJoin([graph.placeholder("string", [], name="x"), b"\xff\0"], name="y")
    file = tmp_path / "values.npz"
    code, out, err = debug([f"save {file}", "go"], save(graph), "-x", "x=a", "-y", "y")
    assert (code, err) == (0, "")
    assert f"{file}: a string that ends in a zero byte cannot be kept in this kind of file" in out
    assert not file.exists()
    assert out[-1].startswith("y:0")


def test_a_break_is_kept_once_and_a_name_goes_past_it(root: str, debug: Debug) -> None:
    lines = ["break layer/root", "break layer/root", "go y", "delete layer/root", "break", "quit"]
    code, out, err = debug(lines, root, "-x", "x=[1, 2]")
    assert (code, err) == (0, "")
    assert "next y (Sum)" in out
    assert out[-3:] == ["no breaks", "(debug) quit", "left before the end of the step"]
