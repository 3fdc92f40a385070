"""Jacobians and Hessians beside differences: through loops, in loops, of shapes that are not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.testing.control import conditional, while_loop
from tests.gradients.test_loops import branching, nested

AT: Final = np.array([[0.9, 0.3], [-0.2, 1.1]])


def evaluate(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


def differences(graph: fe.Graph, y: fe.Tensor, x: fe.Tensor, at: Any, step: float = 1e-6) -> Any:
    """The Jacobian by central differences."""
    columns = []
    with fe.blocking.Session(graph) as session:
        for place in np.ndindex(*at.shape):
            moved = np.zeros_like(at)
            moved[place] = step
            columns.append((session.run(y, {x: at + moved}) - session.run(y, {x: at - moved})) / (2 * step))
    stacked = np.stack(columns, -1)
    return stacked.reshape(stacked.shape[:-1] + at.shape)


def straight(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    ops = graph.ops
    product: fe.Tensor = ops.Mul(ops.MatMul(x, x), x)
    return product


def looping(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    ops = graph.ops
    _, y = while_loop(
        graph,
        lambda i, v, w: ops.Less(i, 3),
        lambda i, v, w: [ops.AddV2(i, 1), ops.Mul(ops.MatMul(v, w), v)],
        [graph.constant(0), x],
        invariants=[ops.Mul(x, 0.5)],
    )
    return y


def cubing(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    """A loop in the branch of a conditional that is taken."""
    return one_or_other(graph, x, 100.0)


def not_cubing(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    """A loop in the other branch."""
    return one_or_other(graph, x, -100.0)


def one_or_other(graph: fe.Graph, x: fe.Tensor, limit: float) -> fe.Tensor:
    (y,) = conditional(
        graph,
        graph.ops.Less(graph.ops.Sum(x, [0, 1]), limit),
        lambda v: [looping(graph, v)],
        lambda v: [graph.ops.Mul(graph.ops.Mul(v, v), v)],
        [x],
    )
    return y


BUILDS: Final = (straight, looping, nested, branching, cubing, not_cubing)


@pytest.mark.parametrize("shape", [[2, 2], None], ids=["known", "unknown"])
@pytest.mark.parametrize("build", BUILDS)
def test_against_differences(build: Callable[..., fe.Tensor], shape: Any) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", shape, name="x")
    y = build(graph, x)
    by_x = fe.jacobian(y, x)
    assert by_x.shape.as_tuple() == ((2, 2, 2, 2) if shape else None)
    np.testing.assert_allclose(
        evaluate(graph, by_x, {x: AT}), differences(graph, y, x, AT), rtol=1e-4, atol=1e-6
    )
    (first,) = fe.gradients(y, x)
    (second,) = fe.hessians(y, x)
    assert isinstance(first, fe.Tensor)
    assert second is not None
    wanted = differences(graph, first, x, AT)
    np.testing.assert_allclose(evaluate(graph, second, {x: AT}), wanted, rtol=1e-4, atol=1e-4)
    # The sum of the Jacobian over all y is the gradient, so this is the sum of the Hessian.
    (of_rows,) = fe.gradients(by_x, x)
    assert isinstance(of_rows, fe.Tensor)
    np.testing.assert_allclose(evaluate(graph, of_rows, {x: AT}), wanted.sum((0, 1)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_shapes_that_only_the_run_tells(rows: int) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", None, name="x")
    y = graph.ops.Square(x)
    at = np.arange(2.0 * rows).reshape(rows, 2)
    found = evaluate(graph, fe.jacobian(y, x), {x: at})
    assert found.shape == (rows, 2, rows, 2)
    np.testing.assert_allclose(found.reshape(2 * rows, 2 * rows), np.diag(2 * at.ravel()))


def test_several_of_which_one_is_not_connected() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2])
    z = graph.placeholder("float32", [3])
    y = graph.ops.Mul(x, 3.0)
    by_x, by_z = fe.jacobian(y, [x, z])
    assert by_z is None
    zeros = fe.jacobian(y, z, unconnected="zero")
    got, none = evaluate(graph, [by_x, zeros], {x: [1, 2], z: [0, 0, 0]})
    np.testing.assert_array_equal(got, np.diag([3, 3]))
    np.testing.assert_array_equal(none, np.zeros((2, 3)))
    assert fe.hessians(y, z) == [None]


def test_rows_that_are_slices() -> None:
    """A gradient of gathered values has few rows; in a Jacobian they are made dense."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [3])
    y = graph.ops.GatherV2(x, [2, 0, 2], 0)
    np.testing.assert_array_equal(
        evaluate(graph, fe.jacobian(y, x), {x: [1, 2, 3]}), [[0, 0, 1], [1, 0, 0], [0, 0, 1]]
    )


def test_a_variable() -> None:
    graph = fe.Graph()
    ops = graph.ops
    handle = ops.VarHandleOp(dtype="float64", shape=[2])
    start = ops.AssignVariableOp(handle, graph.constant([1.5, -2.0], "float64"))
    y = ops.Mul(ops.ReadVariableOp(handle, dtype="float64"), graph.constant([2.0, 3.0], "float64"))
    by_variable = fe.jacobian(y, handle)
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[start])
        np.testing.assert_array_equal(session.run(by_variable), [[2, 0], [0, 3]])


def test_stopped_tensors_are_constants() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [])
    square = graph.ops.Square(x)
    y = graph.ops.Mul(square, x)
    assert evaluate(graph, fe.jacobian(y, x, stop_gradients=square), {x: 3.0}) == 9.0
    (second,) = fe.hessians(y, x, stop_gradients=[square])
    assert second is None


def test_in_each_iteration_of_a_loop_that_is_being_built() -> None:
    """Newton's method: the Jacobian of the iteration, of which that of the whole loop can be taken again."""
    graph = fe.Graph()
    ops = graph.ops
    target = graph.placeholder("float64", [2], name="target")

    def body(i: fe.Tensor, v: fe.Tensor, wanted: fe.Tensor) -> list[fe.Tensor]:
        squared = ops.Mul(v, v)
        slopes = fe.jacobian(squared, v)
        step = ops.MatrixSolve(slopes, ops.ExpandDims(ops.Sub(squared, wanted), -1))
        return [ops.AddV2(i, 1), ops.Sub(v, ops.Squeeze(step, squeeze_dims=[-1]))]

    _, roots = while_loop(
        graph,
        lambda i, v, wanted: ops.Less(i, 6),
        body,
        [graph.constant(0), graph.constant([1.0, 1.0], "float64")],
        invariants=[target],
    )
    at = np.array([2.0, 3.0])
    np.testing.assert_allclose(evaluate(graph, roots, {target: at}), np.sqrt(at), rtol=1e-6)
    (by_target,) = fe.gradients(roots, target)
    np.testing.assert_allclose(evaluate(graph, by_target, {target: at}), 0.5 / np.sqrt(at), rtol=1e-5)


@pytest.mark.parametrize("build", [straight, looping])
def test_a_gradient_in_a_loop_by_what_is_in_front_of_it(build: Callable[..., fe.Tensor]) -> None:
    """Each iteration goes back through what was computed once, before the loop."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [2, 2], name="x")
    made = build(graph, x)

    def body(i: fe.Tensor, total: fe.Tensor, fixed: fe.Tensor) -> list[fe.Tensor]:
        y = ops.Mul(ops.Mul(fixed, fixed), ops.Cast(ops.AddV2(i, 1), DstT="float64"))
        (slope,) = fe.gradients(y, x)
        assert slope is not None
        return [ops.AddV2(i, 1), ops.AddV2(total, slope)]

    _, total = while_loop(
        graph,
        lambda i, total, fixed: ops.Less(i, 3),
        body,
        [graph.constant(0), graph.constant(np.zeros((2, 2)))],
        invariants=[made],
    )
    (once,) = fe.gradients(ops.Mul(made, made), x)
    assert isinstance(once, fe.Tensor)
    np.testing.assert_allclose(*evaluate(graph, [total, ops.Mul(once, 6.0)], {x: AT}))


def test_what_cannot_be_done_says_so() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [3])
    with pytest.raises(TypeError, match="one floating tensor"):
        fe.jacobian(ops.Cast(x, DstT="complex128"), x)
    with pytest.raises(TypeError, match="one floating tensor"):
        fe.jacobian([x], x)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one of none, zero"):
        fe.jacobian(x, x, unconnected="None")
    array = ops.TensorArrayV3(3, dtype="float64")
    flow = ops.TensorArrayScatterV3(array.handle, [0, 1, 2], x, array.flow)
    y = ops.TensorArrayGatherV3(array.handle, [2, 1, 0], flow, dtype="float64", element_shape=[])
    with pytest.raises(NotImplementedError, match="which would add up"):
        fe.jacobian(y, x)
    # A graph in which that was tried is as good as before.
    assert evaluate(graph, fe.gradients(y, x)[0], {x: [1, 2, 3]}).tolist() == [1, 1, 1]


def test_a_list_of_tensors_lies_between() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [3])
    shape = np.zeros(0, np.int32)
    items = ops.TensorListFromTensor(ops.Square(x), shape)
    y = ops.TensorListGather(items, [2, 0], shape, element_dtype="float64")
    np.testing.assert_array_equal(evaluate(graph, fe.jacobian(y, x), {x: [1, 2, 3]}), [[0, 0, 6], [2, 0, 0]])
