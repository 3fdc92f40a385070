"""Likely outputs of graphs that train: losses, predictions, metrics, and nothing that no step can fetch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.cli.models.likely import likely_outputs, proposed
from flowengine.graphs.graph import Graph
from flowengine.ir.proto import GraphDef

Output = pytest.CaptureFixture[str]


def classifier(*, named: bool, regularized: bool) -> Graph:
    """A classifier with an optimizer's slots, a summary of the loss and an accuracy."""
    g = Graph()
    ops = g.ops
    x = g.placeholder("float32", [None, 3], name="x")
    labels = g.placeholder("int64", [None], name="labels")
    w = g.variable(np.ones((3, 2), np.float32), name="w")
    logits = ops.MatMul(x, w.value(), name="score")
    ops.Softmax(logits, name="probabilities")
    losses, _ = ops.SparseSoftmaxCrossEntropyWithLogits(logits, labels, name="xentropy")
    data = ops.Mean(losses, [0], name="mean")
    minimized = data
    if regularized:
        minimized = ops.AddV2(data, ops.L2Loss(w.value(), name="decay"), name="both")
    if named:
        minimized = ops.Identity(minimized, name="loss")
    hits = ops.Equal(ops.ArgMax(logits, 1, name="best"), labels)
    ops.Mean(ops.Cast(hits, DstT="float32"), [0], name="hit_rate")
    ops.ScalarSummary("loss", minimized, name="reported")
    fe.optimizers.Adam(0.1).minimize(minimized)
    return g


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("regularized", [True, False])
def test_the_loss_comes_first_then_predictions_then_metrics(named: bool, regularized: bool) -> None:
    found = [each.node for each in proposed(classifier(named=named, regularized=regularized))]
    loss = "loss" if named else "both" if regularized else "mean"
    assert loss in found[: 1 + named]
    assert found.index("probabilities") < found.index("hit_rate") <= 4
    assert not [name for name in found if "gradients" in name or "Adam" in name or "slot" in name.lower()]


def test_two_optimizers_have_two_losses() -> None:
    g = Graph()
    x = g.placeholder("float32", [None], name="x")
    for name in ("one", "two"):
        v = g.variable(np.float32(2), name=f"{name}/v")
        total = g.ops.Sum(g.ops.Square(g.ops.Mul(x, v.value())), [0], name=f"{name}/total")
        fe.gradients(total, [v])
    assert {each.node for each in proposed(g)[:2]} == {"one/total", "two/total"}


def loop() -> Graph:
    """`out` is three times x; `forgotten` lies in the loop's frame, `rare` in one branch of a conditional."""
    g = Graph()
    ops = g.ops
    x = g.placeholder("float32", [], name="x")

    def body(i: fe.Tensor, total: fe.Tensor) -> tuple[fe.Tensor, fe.Tensor]:
        ops.Neg(total, name="forgotten")
        return ops.AddV2(i, 1.0), ops.AddV2(total, x)

    total = g.while_loop(lambda i, _: ops.Less(i, 3.0), body, (g.constant(0.0), g.constant(0.0)))[1]
    ops.Identity(total, name="out")
    taken, _ = ops.Switch(x, ops.Greater(x, 0.0), name="branch")
    ops.Exp(taken, name="rare")
    return g


def test_no_output_lies_in_a_frame_or_in_a_branch(save: Callable[[fe.Graph], str], capsys: Output) -> None:
    nodes = [each.node for each in likely_outputs(loop())]
    assert nodes[0] == "out"
    assert not [name for name in nodes if "forgotten" in name or name in ("rare", "branch")]
    assert main(["plan", save(loop())]) == 0
    assert "out = Identity(" in capsys.readouterr().out


def test_a_value_that_enters_a_loop_is_no_output_though_gradients_alone_take_it() -> None:
    g = Graph()
    ops = g.ops
    x = g.placeholder("float32", [], name="x")
    entered = ops.Enter(x, frame_name="loop", name="entered")
    with g.name_scope("gradients"):
        ops.Neg(entered, name="back")
    ops.Neg(x, name="y")
    assert [each.node for each in likely_outputs(g) if each.node == "entered"] == []


def test_a_graph_of_effects_inside_a_loop_has_no_output_to_plan(tmp_path: Path, capsys: Output) -> None:
    text = """
    node { name: "c" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }
    node { name: "e" op: "Enter" input: "c" attr { key: "T" value { type: DT_FLOAT } }
           attr { key: "frame_name" value { s: "f" } } }
    node { name: "lost" op: "Neg" input: "e" attr { key: "T" value { type: DT_FLOAT } } }
    """
    path = tmp_path / "graph.pb"
    path.write_bytes(text_format.Parse(text, GraphDef()).SerializeToString())
    assert main(["plan", str(path)]) == failure.USAGE
    assert "the graph has no likely output" in capsys.readouterr().err


def test_what_orders_the_steps_of_a_tensor_array_is_no_loss() -> None:
    g = Graph()
    x = g.placeholder("float32", [None], name="x")
    w = g.variable(np.float32(2), name="w").value()
    array, flow = g.ops.TensorArrayV3(3, dtype="float32")

    def body(i: fe.Tensor, total: fe.Tensor, flow: fe.Tensor) -> list[fe.Tensor]:
        row = g.ops.Gather(x, i) * w
        return [i + 1, total + row, g.ops.TensorArrayWriteV3(array, i, row, flow)]

    start = [g.constant(0), g.constant(np.float32(0)), flow]
    _, total, last = g.while_loop(lambda i, total, flow: i < 3, body, start)
    loss = g.ops.Square(total, name="total_cost")
    fe.optimizers.SGD(0.1).minimize(loss)
    found = [each.node for each in proposed(g)]
    assert found[0] == "total_cost"
    assert last.node_name not in found
