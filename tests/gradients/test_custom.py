"""Gradients of one's own: overrides by name, and functions that say their gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.testing import check_gradient
from flowengine.testing.control import while_loop


def evaluate(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


@gradient("TenfoldOfTests")
def tenfold(b: Backward, op: fe.Operation, grad: fe.Tensor) -> Results:
    return [b.ops.Mul(grad, np.float64(10.0))]


def test_an_override_is_asked_for_by_name_and_kept_in_the_file() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    with graph.gradient_override(Identity="TenfoldOfTests"):
        inner = graph.ops.Identity(x)
    y = graph.ops.Identity(inner, name="y")
    (dx,) = fe.gradients(y, x)
    assert evaluate(graph, dx, {x: 1.0}) == 10.0
    read = fe.Graph.from_graph_def(graph.to_graph_def().SerializeToString())
    (again,) = fe.gradients(read.tensor("y:0"), read.tensor("x:0"))
    assert evaluate(read, again, {"x:0": 1.0}) == 10.0


def test_an_override_that_nobody_has_registered() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    with graph.gradient_override(Identity="NoSuchGradient"):
        y = graph.ops.Identity(x)
    with pytest.raises(LookupError, match="NoSuchGradient"):
        fe.gradients(y, x)
    with pytest.raises(fe.errors.NotFoundError):
        graph.gradient_override(NoSuchOp="x")


@fe.custom_gradient
def squared(x: fe.Tensor) -> Any:
    """x * x with a gradient of 5 x g."""

    def backward(grad: fe.Tensor) -> fe.Tensor:
        return x.graph.ops.Mul(x.graph.ops.Mul(grad, x), np.float64(5.0))

    return x.graph.ops.Mul(x, x), backward


def test_a_function_says_its_gradient() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    y = squared(x)
    (dx,) = fe.gradients(y, x)
    assert evaluate(graph, [y, dx], {x: 3.0}) == [9.0, 15.0]


def test_it_does_so_in_a_loop() -> None:
    """The values that the gradient function uses of an iteration are brought from that iteration."""
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    _, y = while_loop(
        graph,
        lambda i, v, n: graph.ops.Less(i, n),
        lambda i, v, n: [graph.ops.AddV2(i, 1), squared(v)],
        [graph.constant(0), x],
        invariants=[graph.constant(2)],
    )
    (dx,) = fe.gradients(y, x)
    # 5 x for the first iteration, 5 x^2 for the second
    np.testing.assert_allclose(evaluate(graph, [y, dx], {x: 3.0}), [81.0, 5 * 9.0 * 5 * 3.0])


def test_a_check_finds_what_is_wrong() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [3], name="x")
    at = np.array([1.0, 2.0, 3.0])
    assert check_gradient(graph.ops.Mul(x, x), x, {x: at}) < 1e-6
    with pytest.raises(AssertionError, match="differences of values"):
        check_gradient(squared(x), x, {x: at})


def test_arguments_and_results_that_do_not_fit() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    with pytest.raises(TypeError, match="takes Tensors"):
        squared(3.0)

    @fe.custom_gradient
    def two(a: fe.Tensor) -> Any:
        return graph.ops.Identity(a), lambda grad: [grad, grad]

    with pytest.raises(ValueError, match="2 gradients for 1 arguments"):
        fe.gradients(two(x), x)


def test_a_gradient_that_is_missing_says_where() -> None:
    """The op, the way from y to x, and the line that made the node; of an op and of a name alike."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [4], name="x")
    named = ops["Cos"](ops.Sin(x, name="a"), name="b", _gradient_op_type=b"Nowhere")
    mixed = ops.RandomShuffle(x, name="c")
    for y, said in (
        (ops.Exp(named, name="y"), ("Cos 'b'", "b <- a <- x", "@gradient('Nowhere')")),
        (ops.Exp(mixed, name="z"), ("RandomShuffle 'c'", "c <- x", "gradient('RandomShuffle')")),
    ):
        with pytest.raises(LookupError) as caught:
            fe.gradients(y, x)
        assert all(each in str(caught.value) for each in (*said, "test_custom.py:"))
        assert str(caught.value).count(said[0]) == 1
