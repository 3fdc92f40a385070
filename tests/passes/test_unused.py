"""Gradients that nobody takes are not computed, and still order what waits for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import NodeGraph
from flowengine.ir.validate import check_graph
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.unused import drop_unused_gradients


def dropped(graph: NodeGraph, fetches: Any = (), targets: str = "", feeds: Any = ()) -> NodeGraph:
    context = PassContext(
        feeds=tuple(t.port for t in feeds),
        fetches=tuple(t.port for t in fetches),
        targets=tuple(targets.split()),
    )
    result = drop_unused_gradients(graph, context)
    check_graph(result, supplied=context.feeds)
    return result


@pytest.fixture
def g() -> Graph:
    """A pair of gradients and what waits for both."""
    g = Graph()
    x, w = g.placeholder("float32", [2, 3], name="x"), g.placeholder("float32", [3, 4], name="w")
    upstream = g.ops.Tanh(g.ops.MatMul(x, w), name="upstream")
    dx = g.ops.MatMul(upstream, w, transpose_b=True, name="dx")
    dw = g.ops.MatMul(x, upstream, transpose_a=True, name="dw")
    with g.control_dependencies([dx, dw]):
        g.ops.NoOp(name="both")
    with g.control_dependencies(["both"]):
        g.ops.Identity(dw, name="result")
    return g


def test_the_value_that_nobody_takes_is_not_computed(g: Graph) -> None:
    result = dropped(g, [g.tensor("result:0")])
    assert result["dx"].op == "NoOp"
    assert set(result["dx"].control_inputs) == {"upstream", "w"}
    assert result["dw"].op == "MatMul"
    with fe.blocking.Session(g) as session:
        feeds = {"x:0": np.ones((2, 3), np.float32), "w:0": np.ones((3, 4), np.float32)}
        np.testing.assert_allclose(
            session.run("result:0", feeds), np.full((3, 4), 2 * np.tanh(3.0)), rtol=1e-6
        )


def test_what_is_fetched_fed_or_a_target_stays(g: Graph) -> None:
    assert dropped(g, [g.tensor("result:0"), g.tensor("dx:0")]) is g
    assert dropped(g, [g.tensor("result:0")], feeds=[g.tensor("dx:0")]) is g
    assert dropped(g, [g.tensor("result:0")], targets="dx") is g


def test_inputs_that_are_fed_are_not_waited_for(g: Graph) -> None:
    result = dropped(g, [g.tensor("result:0")], feeds=[g.tensor("w:0"), g.tensor("x:0")])
    assert result["dx"].control_inputs == ("upstream",)


def test_behind_a_switch_nothing_is_dropped() -> None:
    g = Graph()
    x, pred = g.placeholder("float32", [2, 2], name="x"), g.placeholder("bool", [], name="pred")
    no, _ = g.ops.Switch(x, pred)
    dx = g.ops.MatMul(no, no, name="dx")
    with g.control_dependencies([dx]):
        g.ops.NoOp(name="done")
    assert dropped(g, targets="done") is g


def test_what_was_only_there_for_it_goes_too() -> None:
    """The gradient of a softmax by its labels, as TensorFlow's graphs have it."""
    g = Graph()
    logits, labels = g.placeholder("float32", [2, 3], name="x"), g.placeholder("float32", [2, 3], name="y")
    loss, backprop = g.ops.SoftmaxCrossEntropyWithLogits(logits, labels)
    upstream = g.ops.Tanh(loss)
    column = g.ops.ExpandDims(upstream, 1, name="column")
    dx = g.ops.Mul(column, backprop, name="dx")
    log = g.ops.LogSoftmax(logits, name="log")
    dy = g.ops.Mul(column, g.ops.Neg(log, name="neg"), name="dy")
    with g.control_dependencies([dx, dy]):
        g.ops.NoOp(name="both")
    with g.control_dependencies(["both"]):
        g.ops.Identity(dx, name="result")
    result = dropped(g, [g.tensor("result:0")])
    assert [result[name].op for name in ("dy", "neg", "log", "dx")] == ["NoOp", "NoOp", "NoOp", "Mul"]
    assert result["column"].op == "ExpandDims"
    kept = dropped(g, [g.tensor("result:0"), log])
    assert [kept[name].op for name in ("dy", "neg", "log")] == ["NoOp", "NoOp", "LogSoftmax"]
