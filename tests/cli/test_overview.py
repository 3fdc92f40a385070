"""The outputs that `inspect` and `plan` choose for a graph."""

from __future__ import annotations

import numpy as np

import flowengine as fe
from flowengine.cli.models.likely import likely_outputs, likely_predictions
from flowengine.graphs.graph import Graph


def test_outputs_are_values_and_no_effects() -> None:
    g = Graph()
    ops = g.ops
    x = g.placeholder("float32", [3], name="x")
    variable = ops.VariableV2(shape=[3], dtype="float32", name="v")
    ops.Assign(variable, x, name="assign")
    queue = ops.FIFOQueueV2(component_types=["float32"], name="queue")
    ops.QueueDequeueV2(queue, component_types=["float32"], name="taken")
    ops.Print(x, [x], name="shown")
    ops.ScalarSummary("tag", g.constant(1.0), name="summary")
    ops.Identity(variable, name="read")
    ops.ScatterNd([[0]], [1.0], [3], name="scattered")
    ops.Neg(x, name="y")
    # What only reads a variable comes last.
    assert [found.node for found in likely_outputs(g)] == ["y", "scattered", "read"]
    assert [found.node for found in likely_outputs(g, by_products=False)] == ["y", "scattered"]


def test_a_prediction_is_what_the_loss_compares_with_labels() -> None:
    g = Graph()
    x, y = g.placeholder("float32", [None, 2], name="x"), g.placeholder("float32", [None, 1], name="y")
    w = g.variable(np.ones((2, 1), np.float32), name="w")
    prediction = g.ops.MatMul(x, w.value(), name="prediction")
    labels = g.ops.Mul(y, np.float32(2), name="labels")
    loss = g.ops.Square(g.ops.Sub(prediction, labels), name="loss")
    fe.gradients(loss, [w])
    assert [(found.node, needed) for found, needed in likely_predictions(g)] == [("prediction", ["x"])]


def test_a_graph_that_wants_one_thing_has_no_prediction_of_its_own() -> None:
    g = Graph()
    w = g.variable(np.float32(1), name="w")
    g.ops.Mul(g.ops.Mul(g.placeholder("float32", [], name="x"), w.value()), w.value(), name="y")
    assert likely_predictions(g) == []
