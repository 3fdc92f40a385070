"""`flowengine plan`: what would run, and nothing does."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.ir.proto import GraphDef
from flowengine.saved_model import read_saved_model

Output = pytest.CaptureFixture[str]


def test_the_nodes_that_a_fetch_needs(linear: str, capsys: Output) -> None:
    assert main(["plan", linear, "--fetch", "product"]) == 0
    shown = capsys.readouterr().out
    assert "product = MatMul(x:0, " in shown
    assert "y = AddV2" not in shown
    assert "nodes -> " in shown


def test_likely_outputs_where_nothing_is_named(linear: str, capsys: Output) -> None:
    assert main(["plan", linear]) == 0
    assert "shape = Shape(y:0)" in capsys.readouterr().out


def test_a_likely_output_that_no_step_computes_is_left_out(
    save: Callable[[fe.Graph], str], capsys: Output
) -> None:
    graph = fe.Graph()
    ops = graph.ops
    ops.Neg(graph.placeholder("float32", [2], name="x"), name="y")
    ops.ArgMax(graph.constant([1.0, 2.0], name="vector"), graph.constant(0, name="axis"), name="wrong")
    both = save(graph)
    document = GraphDef.FromString(Path(both).read_bytes())
    axis = next(node for node in document.node if node.name == "axis").attr["value"].tensor
    axis.ClearField("tensor_content")
    axis.int_val[:] = [1]
    Path(both).write_bytes(document.SerializeToString())
    assert main(["plan", both]) == 0
    shown = capsys.readouterr()
    assert "y = Neg(x:0)" in shown.out
    assert "wrong" not in shown.out.split("nodes ->")[0]
    assert "a likely output is left out" in shown.err
    assert "ArgMax 'wrong'" in shown.err
    assert main(["plan", both, "--fetch", "wrong"]) == failure.STEP_ERROR


def test_what_a_feed_cuts_off_is_not_run(linear: str, capsys: Output) -> None:
    assert main(["plan", linear, "--feed", "product", "--fetch", "y"]) == 0
    assert "MatMul" not in capsys.readouterr().out


def test_generated_source(save: Callable[[fe.Graph], str], capsys: Output) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    for _ in range(4):
        x = graph.ops.Tanh(graph.ops.AddV2(x, x))
    graph.ops.Identity(x, name="y")
    assert main(["plan", save(graph), "--fetch", "y", "--source"]) == 0
    shown = capsys.readouterr().out
    assert "def " in shown
    compile(shown, "plan", "exec")


def test_a_drawing(linear: str, capsys: Output) -> None:
    assert main(["plan", linear, "--fetch", "y", "--dot"]) == 0
    assert capsys.readouterr().out.startswith("digraph {")


def test_a_long_plan_fits_a_screen(save: Callable[[fe.Graph], str], capsys: Output) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    for number in range(300):
        x = graph.ops.AddV2(x, graph.ops.Neg(graph.constant(float(number)), name=f"less_{number}"))
    graph.ops.Identity(x, name="y")
    path = save(graph)
    assert main(["plan", path, "--all"]) == 0
    whole = capsys.readouterr().out.splitlines()
    assert main(["plan", path]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(whole) > 600 > 60 > len(shown)
    assert shown[0] == whole[0]
    assert any(line.startswith("y = Identity(") for line in shown)
    more = [line for line in shown if line not in whole]
    assert [line.split()[3:] for line in more] == [["nodes:", "--all"], ["changes:", "--all"]]
    assert len(shown) - len(more) + sum(int(line.split()[1]) for line in more) == len(whole)
    assert main(["plan", path, "--placement"]) == 0
    assert len(capsys.readouterr().out.splitlines()) < 60


def test_a_target_and_no_feeds(counter: str, capsys: Output) -> None:
    assert main(["plan", counter, "--target", "count"]) == 0
    assert "count = AssignAdd(v:0, step:0)" in capsys.readouterr().out


def test_wrong_names_are_wrong_usage(linear: str, capsys: Output) -> None:
    assert main(["plan", linear, "--fetch", "prodct"]) == failure.USAGE
    assert "did you mean product" in capsys.readouterr().err
    assert main(["plan", linear, "--target", "nobody"]) == failure.USAGE
    assert main(["plan", linear, "--source", "--dot"]) == failure.USAGE


@pytest.fixture
def exported(tmp_path: Path) -> str:
    """A SavedModel of TensorFlow 2, with nodes that save and restore beside its signatures."""
    with zipfile.ZipFile(Path(__file__).parents[1] / "saved_model" / "recorded" / "module.zip") as packed:
        packed.extractall(tmp_path)
    return str(tmp_path)


def test_a_saved_model_is_planned_as_its_signature_calls_it(exported: str, capsys: Output) -> None:
    model = read_saved_model(exported)
    name, facts = next((name, facts) for name, facts in model.signatures.items() if facts.inputs)
    assert main(["plan", exported, "--signature", name]) == 0
    shown = capsys.readouterr().out
    assert "SaveV2" not in shown
    assert "RestoreV2" not in shown
    (first, *_) = facts.inputs
    (output, *_) = facts.outputs
    named = ["--signature", name, "--feed", first, "--fetch", output]
    assert main(["plan", exported, *named]) == 0
    assert main(["plan", exported, "--tag", "nothing"]) == failure.UNREADABLE_GRAPH
    assert main(["plan", exported, "--signature", "nothing"]) == failure.USAGE
    assert "--signature nothing: there is no such signature" in capsys.readouterr().err


def test_a_long_line_is_cut_unless_all_is_wanted(save: Callable[[fe.Graph], str], capsys: Output) -> None:
    graph = fe.Graph()
    terms = [graph.ops.Neg(graph.placeholder("float32", [], name=f"term_{i}")) for i in range(200)]
    graph.ops.AddN(terms, name="total")
    path = save(graph)
    assert main(["plan", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 300
    assert any(
        line.startswith("total = AddN(") and line.endswith(" more characters: --all") for line in lines
    )
    assert main(["plan", path, "--all"]) == 0
    assert "Neg_199:0)" in capsys.readouterr().out
