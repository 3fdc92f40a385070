"""Ops that nobody has registered: every verb names them all, with node and function, and none stumbles."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowengine.cli import failure
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]

#: `y` calls `outer`, which calls `inner` (with Hum), on what Whirr gives; `safe` may take a branch with Hum.
GRAPH = """
versions { producer: 1395 }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { } } } }
node { name: "strange" op: "Whirr" input: "x" }
node { name: "y" op: "PartitionedCall" input: "x" input: "strange"
       attr { key: "Tin" value { list { type: DT_FLOAT type: DT_RESOURCE } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } }
       attr { key: "f" value { func { name: "outer" } } } }
node { name: "sound" op: "sounding" input: "x" input: "strange" }
node { name: "called" op: "inner" input: "x" }
node { name: "negated" op: "Neg" input: "called" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "which" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } }
       attr { key: "shape" value { shape { } } } }
node { name: "chosen" op: "If" input: "which" input: "x"
       attr { key: "Tcond" value { type: DT_BOOL } }
       attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } }
       attr { key: "then_branch" value { func { name: "known" } } }
       attr { key: "else_branch" value { func { name: "inner" } } } }
node { name: "wasteful" op: "PartitionedCall" input: "x"
       attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } }
       attr { key: "f" value { func { name: "wasting" } } } }
library {
  function {
    signature { name: "outer" input_arg { name: "x" type: DT_FLOAT } input_arg { name: "h" type: DT_RESOURCE }
                output_arg { name: "out" type: DT_FLOAT } }
    node_def { name: "step" op: "PartitionedCall" input: "x"
               attr { key: "Tin" value { list { type: DT_FLOAT } } }
               attr { key: "Tout" value { list { type: DT_FLOAT } } }
               attr { key: "f" value { func { name: "inner" } } } }
    ret { key: "out" value: "step:output:0" }
  }
  function {
    signature { name: "inner" input_arg { name: "x" type: DT_FLOAT }
                output_arg { name: "out" type: DT_FLOAT } }
    node_def { name: "odd" op: "Hum" input: "x" }
    ret { key: "out" value: "odd:out:0" }
  }
  function {
    signature { name: "known" input_arg { name: "x" type: DT_FLOAT }
                output_arg { name: "out" type: DT_FLOAT } }
    node_def { name: "neg" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "out" value: "neg:y:0" }
  }
  function {
    signature { name: "sounding" input_arg { name: "x" type: DT_FLOAT }
                input_arg { name: "h" type: DT_RESOURCE } output_arg { name: "out" type: DT_FLOAT } }
    node_def { name: "neg" op: "Neg" input: "x" input: "^h" attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "out" value: "neg:y:0" }
  }
  function {
    signature { name: "wasting" input_arg { name: "x" type: DT_FLOAT }
                output_arg { name: "out" type: DT_FLOAT } }
    node_def { name: "unused" op: "Hum" input: "x" }
    node_def { name: "neg" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "out" value: "neg:y:0" }
  }
}
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "graph.pbtxt"
    file.write_text(GRAPH)
    return str(file)


@pytest.mark.parametrize("verb", [["run", "-x", "x=1"], ["plan"]], ids=["run", "plan"])
def test_all_unknown_ops_are_named_at_once(verb: list[str], path: str, capsys: Output) -> None:
    assert main([verb[0], path, *verb[1:], "--fetch", "y"]) == failure.MISSING_OP
    told = capsys.readouterr().err
    assert "Whirr 'strange': Op type not registered 'Whirr'" in told
    assert "nor is 'Hum' at node 'odd' of function 'inner'" in told
    assert "can define it, with its kernel (--import MODULE on the command line)" in told


def test_one_that_is_left_out_is_told_why(path: str, capsys: Output) -> None:
    file = Path(path)
    file.write_text(file.read_text().replace('op: "Whirr"', 'op: "DecodeAudio"'))
    assert main(["run", path, "-x", "x=1", "--fetch", "y"]) == failure.MISSING_OP
    assert "it is left out (of tf.contrib.ffmpeg: sound and film" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["run", "-x", "x=1"], ["plan"]], ids=["run", "plan"])
def test_one_in_a_body_is_named_with_its_function(verb: list[str], path: str, capsys: Output) -> None:
    assert main([verb[0], path, *verb[1:], "--fetch", "negated"]) == failure.MISSING_OP
    assert "Hum 'odd': Op type not registered 'Hum' (in function 'inner')" in capsys.readouterr().err


def test_a_branch_that_is_not_taken_does_no_harm(path: str, capsys: Output) -> None:
    feeds = ["-x", "x=2", "--fetch", "chosen"]
    assert main(["run", path, "-x", "which=true", *feeds]) == 0
    assert capsys.readouterr().out == "chosen:0 = -2.0\n"
    assert main(["run", path, "-x", "which=false", *feeds]) == failure.MISSING_OP
    assert "Hum 'odd': Op type not registered 'Hum' (in function 'inner')" in capsys.readouterr().err


def test_one_whose_value_nobody_wants_does_no_harm(path: str, capsys: Output) -> None:
    assert main(["run", path, "-x", "x=2", "--fetch", "wasteful"]) == 0
    assert capsys.readouterr().out == "wasteful:0 = -2.0\n"


def test_inspect_names_those_in_bodies(path: str, capsys: Output) -> None:
    assert main(["inspect", path]) == 0
    shown = capsys.readouterr().out
    missing = shown.partition("ops without a kernel here: ")[2].partition("ops: ")[0]
    assert missing.split() == ["2", "2", "Hum", "1", "Whirr"]
    assert "inner: Hum 'odd': Op type not registered 'Hum' (in function 'inner')" in shown


def test_freezing_copes_with_them(path: str, tmp_path: Path, capsys: Output) -> None:
    output = tmp_path / "frozen.pb"
    assert main(["freeze", path, "--fetch", "y", "-o", str(output)]) == failure.MISSING_OP
    assert "Hum 'odd'" in capsys.readouterr().err
    assert not output.exists()
    assert main(["freeze", path, "--fetch", "sound", "-o", str(output)]) == 0
    capsys.readouterr()
    assert main(["run", str(output), "-x", "x=2", "--fetch", "sound"]) == 0
    assert capsys.readouterr().out == "sound:0 = -2.0\n"
