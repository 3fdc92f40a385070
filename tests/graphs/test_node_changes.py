"""Nodes that are replaced, until a step has needed them."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import FailedPreconditionError


@pytest.fixture
def graph() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2, 3], name="x")
    y = graph.ops.Sum(x, [0], name="y")
    graph.ops.Mul(y, y, name="z")
    graph.ops.Neg(x, name="apart")
    return graph


def test_inputs_attributes_devices_and_control_inputs_change(graph: fe.Graph) -> None:
    other = graph.placeholder("float32", [5, 4], name="other")
    axis = graph.tensor("y:0").op.inputs[1]
    version = graph.version
    changed = graph.replace_node("y", inputs=[other, axis], attrs={"keep_dims": True})
    assert graph.version > version
    assert changed.get_attr("keep_dims") is True
    # What follows is known anew.
    assert graph.tensor("z:0").shape.as_list() == [1, 4]
    graph.replace_node(changed, device="/cpu:0", control_inputs=[graph.operation("apart")])
    assert changed.device == "/device:CPU:0"
    assert [each.name for each in changed.control_inputs] == ["apart"]
    with fe.blocking.Session(graph) as session:
        found = session.run("z:0", {"other:0": np.ones((5, 4)), "x:0": np.zeros((2, 3))})
    np.testing.assert_array_equal(found, np.full((1, 4), 25, np.float32))


def test_what_a_step_has_needed_stays(graph: fe.Graph) -> None:
    x = graph.tensor("x:0")
    with fe.blocking.Session(graph) as session:
        session.run("y:0", {x: np.ones((2, 3))})
        with pytest.raises(FailedPreconditionError, match="'y' cannot be replaced: a step has needed it"):
            graph.replace_node("y", device="/cpu:0")
        # What no step has needed may still change, and runs as it is then.
        graph.replace_node("z", inputs=[graph.tensor("y:0"), graph.constant([1.0, 2.0, 3.0])])
        assert session.run("z:0", {x: np.ones((2, 3))}).tolist() == [2, 4, 6]
    graph.replace_node("apart", device="/cpu:0")
    again = fe.Graph.from_graph_def(graph.to_graph_def())
    assert again.replace_node("y", attrs={"keep_dims": True}).outputs[0].shape.as_list() == [1, 3]


def test_what_does_not_fit_changes_nothing(graph: fe.Graph) -> None:
    x, y, z = (graph.tensor(f"{name}:0") for name in "xyz")
    before = graph.to_graph_def()
    axis = y.op.inputs[1]
    with pytest.raises(TypeError, match=r"input 0 of 'y' .* is float32; 'y/reduction_indices:0' is int32"):
        graph.replace_node("y", inputs=[axis, axis])
    with pytest.raises(ValueError, match=r"'y' \(Sum\) has 2 inputs; 1 are given"):
        graph.replace_node("y", inputs=[x])
    with pytest.raises(ValueError, match="'y' would wait for itself"):
        graph.replace_node("y", inputs=[z, axis])
    with pytest.raises(ValueError, match="'y' would wait for itself"):
        graph.replace_node("y", control_inputs=[z])
    with pytest.raises(TypeError, match="it cannot have"):
        graph.replace_node("x", attrs={"dtype": "int32"})
    with pytest.raises(TypeError, match="'keep_dims'"):
        graph.replace_node("y", attrs={"keep_dims": "yes"})
    with pytest.raises(ValueError, match="another graph"):
        graph.replace_node("y", inputs=[fe.Graph().placeholder("float32"), axis])
    with pytest.raises(ValueError, match="Incompatible shapes"):
        graph.replace_node("z", inputs=[y, graph.constant(np.ones((7, 7), np.float32), name="wide")])
    after = graph.to_graph_def()
    del after.node[len(before.node) :]
    assert after == before
    assert graph.tensor("z:0").shape.as_list() == [3]
