"""Gradients of straight-line code: what lies between, aggregation, seeds, stops, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.ir.opdef import OpDef, OpRegistry


def evaluate(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


def test_a_product_of_matrices() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2, 3], name="x")
    w = graph.constant(np.arange(6, dtype=np.float32).reshape(3, 2), name="w")
    y = graph.ops.MatMul(x, w, name="y")
    dx, dw = fe.gradients(y, [x, w])
    assert isinstance(dx, fe.Tensor)
    assert dx.name.startswith("gradients/y_grad/")
    value = np.ones((2, 3), np.float32)
    got_x, got_w = evaluate(graph, [dx, dw], {x: value})
    np.testing.assert_allclose(got_x, np.tile([1.0, 5.0, 9.0], (2, 1)))
    np.testing.assert_allclose(got_w, np.full((3, 2), 2.0))


@pytest.mark.parametrize("aggregation", ["add", "tree", "accumulate"])
def test_gradients_of_several_uses_add_up(aggregation: str) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [2], name="x")
    y = graph.ops.Mul(graph.ops.Mul(x, x), graph.ops.Mul(x, x))
    (dx,) = fe.gradients(y, x, aggregation=aggregation)
    np.testing.assert_allclose(evaluate(graph, dx, {x: [2.0, 3.0]}), [32.0, 108.0])


def test_a_second_derivative() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    y = graph.ops.Mul(graph.ops.Mul(x, x), x)
    (first,) = fe.gradients(y, x)
    assert isinstance(first, fe.Tensor)
    (second,) = fe.gradients(first, x)
    assert isinstance(second, fe.Tensor)
    assert second.name.startswith("gradients_1/")
    np.testing.assert_allclose(evaluate(graph, [first, second], {x: 5.0}), [75.0, 30.0])


@pytest.mark.parametrize(
    ("known", "other"), [([2, 1], [3]), ([None, 1], [3]), (None, None), ([3], [2, 3]), ([1, 1], [2, 3])]
)
def test_broadcast_factors(known: Any, other: Any) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", known, name="x")
    z = graph.placeholder("float64", other, name="z")
    dx, dz = fe.gradients(graph.ops.Mul(x, z), [x, z])
    of_x = (
        np.arange(1.0, 3.0).reshape(2, 1)
        if known is None
        else np.ones([2 if d is None else d for d in known])
    )
    of_z = np.arange(3.0) if other is None else np.full(other, 2.0)
    got_x, got_z = evaluate(graph, [dx, dz], {x: of_x, z: of_z})
    whole = np.broadcast_shapes(of_x.shape, of_z.shape)
    assert got_x.shape == of_x.shape
    assert got_z.shape == of_z.shape
    np.testing.assert_allclose(got_x.sum(), np.broadcast_to(of_z, whole).sum())
    np.testing.assert_allclose(got_z.sum(), np.broadcast_to(of_x, whole).sum())


def test_given_gradients_stops_and_what_is_unconnected() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    other = graph.placeholder("float64", [2], name="other")
    inner = graph.ops.Mul(x, x)
    y = graph.ops.Mul(inner, x)
    assert fe.gradients(y, [other]) == [None]
    dx, d_inner, zeros = fe.gradients(y, [x, inner, other], 10.0, stop_gradients=[inner], unconnected="zero")
    np.testing.assert_allclose(evaluate(graph, dx, {x: 3.0}), 90.0)
    np.testing.assert_allclose(evaluate(graph, d_inner, {x: 3.0}), 30.0)
    np.testing.assert_array_equal(evaluate(graph, zeros), np.zeros(2))


class Standing:
    """Stands for a tensor, by its method alone."""

    def __init__(self, tensor: fe.Tensor) -> None:
        self.graph = tensor.graph
        self.tensor = tensor

    def __flowengine_tensor__(self, graph: Any, dtype: Any, name: Any) -> fe.Tensor:
        return self.tensor


def test_what_stands_for_a_tensor_is_differentiated_as_that_tensor() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    inner = graph.ops.Mul(x, x)
    y = graph.ops.Mul(inner, x)
    found: Any = fe.gradients(Standing(y), [Standing(x), x], stop_gradients=[Standing(inner)])
    np.testing.assert_allclose(evaluate(graph, found, {x: 3.0}), [9.0, 9.0])


@pytest.mark.parametrize("wrong", ["x:0", 3.0])
def test_what_is_given_in_place_of_a_tensor_is_named_whole(wrong: Any) -> None:
    graph = fe.Graph()
    y = graph.ops.Neg(graph.placeholder("float64", [], name="x"))
    for asks in (fe.gradients, fe.jacobian, fe.hessians):
        with pytest.raises(TypeError, match=f"{wrong!r} is not a Tensor of a graph"):
            asks(y, wrong)


def test_one_x_lies_behind_another() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    inner = graph.ops.Mul(x, x)
    y = graph.ops.Mul(inner, inner)
    dx, d_inner, dy = fe.gradients(y, [x, inner, y])
    np.testing.assert_allclose(evaluate(graph, [dx, d_inner, dy], {x: 2.0}), [32.0, 8.0, 1.0])


@pytest.mark.parametrize("gate", ["none", "op", "graph"])
def test_gates_have_gradients_wait_for_each_other_and_change_no_value(gate: str) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    z = graph.placeholder("float64", [], name="z")
    found = fe.gradients(graph.ops.Mul(x, z), [x, z], gate=gate)
    np.testing.assert_allclose(evaluate(graph, found, {x: 2.0, z: 3.0}), [3.0, 2.0])
    of_x, of_z = (set(each.op.control_inputs) for each in found if isinstance(each, fe.Tensor))
    assert of_x == of_z
    assert len(of_x) == (0 if gate == "none" else 2)


def test_an_op_of_ones_own_without_gradient_is_named_with_its_line() -> None:
    registry = OpRegistry(parent=fe.Graph().registry)
    registry.register(OpDef.parse("Thrice(x: float) -> y: float"))
    graph = fe.Graph(registry=registry)
    x = graph.placeholder("float32", [], name="x")
    y = graph.ops.Identity(graph.ops["Thrice"](graph.ops.Identity(x, name="before"), name="thrice"), name="y")
    with pytest.raises(LookupError, match=r"'thrice'.*thrice <- before <- x.*test_straight.py"):
        fe.gradients(y, x)


def test_a_gradient_function_of_ones_own() -> None:
    registry = OpRegistry(parent=fe.Graph().registry)
    registry.register(OpDef.parse("FourTimes(x: float) -> y: float"))
    graph = fe.Graph(registry=registry)
    x = graph.placeholder("float32", [], name="x")

    @gradient("FourTimes")
    def four_times(b: Backward, op: fe.Operation, grad: fe.Tensor) -> Results:
        return [b.ops.Mul(grad, 4.0)]

    y = graph.ops["FourTimes"](x)
    (dx,) = fe.gradients(y, x)
    np.testing.assert_allclose(evaluate(graph, dx, {y: 0.0}), 4.0)
    with pytest.raises(fe.errors.InvalidArgumentError, match="has a gradient function already"):
        gradient("FourTimes")(lambda b, op, grad: [None])
    with pytest.raises(fe.errors.InvalidArgumentError, match="has a gradient function already"):
        gradient("MatMul")(lambda b, op, grad: [None])


def test_arguments_that_do_not_fit() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    y = graph.ops.Mul(x, x)
    with pytest.raises(TypeError, match="float64"):
        fe.gradients(y, x, graph.constant([1.0, 1.0], "float64"))
    with pytest.raises(ValueError, match="shape"):
        fe.gradients(y, x, np.ones(3, np.float32))
    with pytest.raises(ValueError, match="2 grad_ys"):
        fe.gradients(y, x, [None, None])
    with pytest.raises(ValueError, match="aggregation is one of"):
        fe.gradients(y, x, aggregation="sum")
    with pytest.raises(ValueError, match="another graph"):
        fe.gradients(y, fe.Graph().placeholder("float32"))
    z = graph.placeholder("complex64", [])
    with pytest.raises(TypeError, match="complex"):
        fe.gradients(z, z)
    with pytest.raises(TypeError, match="is not a Tensor"):
        fe.gradients("y:0", x)


UNKNOWN = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_DOUBLE } } }
node { name: "odd" op: "NobodyKnowsThis" input: "x" }
node { name: "sum" op: "AddN" input: "x" input: "odd"
  attr { key: "N" value { i: 2 } } attr { key: "T" value { type: DT_DOUBLE } } }
node { name: "product" op: "Mul" input: "x" input: "odd" attr { key: "T" value { type: DT_DOUBLE } } }
"""


@pytest.mark.parametrize("swapped", [False, True])
def test_an_op_that_nobody_knows_beside_the_way(swapped: bool) -> None:
    inputs = 'input: "x" input: "odd"'
    written = UNKNOWN.replace(inputs, 'input: "odd" input: "x"') if swapped else UNKNOWN
    graph = fe.Graph.from_graph_def(written)
    (found,) = fe.gradients(graph.tensor("sum:0"), graph.tensor("x:0"), 3.0)
    assert evaluate(graph, found) == 3.0


def test_an_op_that_nobody_knows_has_no_type() -> None:
    """If a derivative needs the type, the error says which op that is."""
    graph = fe.Graph.from_graph_def(UNKNOWN)
    with pytest.raises(fe.errors.InvalidArgumentError, match="'odd:0' has no type: op NobodyKnowsThis"):
        fe.gradients(graph.tensor("product:0"), graph.tensor("x:0"))
