"""Gradients through loops: history in stacks, invariants, nesting, conditionals, and the second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.testing.control import conditional, while_loop


def evaluate(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


def differences(graph: fe.Graph, y: fe.Tensor, x: fe.Tensor, at: float, step: float = 1e-5) -> float:
    with fe.blocking.Session(graph) as session:
        above, below = (session.run(y, {x: at + sign * step}) for sign in (1, -1))
    return float((above - below) / (2 * step))


def one(graph: fe.Graph, y: fe.Tensor, x: fe.Tensor) -> fe.Tensor:
    (found,) = fe.gradients(y, x)
    assert isinstance(found, fe.Tensor)
    return found


def power(graph: fe.Graph, x: fe.Tensor, times: int = 3, **named: Any) -> fe.Tensor:
    """x ** (2 ** times) by squaring."""
    count = graph.constant(0)
    _, y = while_loop(
        graph,
        lambda i, v, n: graph.ops.Less(i, n),
        lambda i, v, n: [graph.ops.AddV2(i, 1), graph.ops.Mul(v, v)],
        [count, x],
        invariants=[graph.constant(times)],
        **named,
    )
    return y


def test_a_loop_squares() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    y = power(graph, x)
    dx = one(graph, y, x)
    np.testing.assert_allclose(evaluate(graph, [y, dx], {x: 1.1}), [1.1**8, 8 * 1.1**7])


def test_no_iteration_at_all() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    dx = one(graph, power(graph, x, 0), x)
    assert evaluate(graph, dx, {x: 1.1}) == 1.0


def test_an_invariant_is_summed() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    _, y = while_loop(
        graph,
        lambda i, v, n, w: graph.ops.Less(i, n),
        lambda i, v, n, w: [graph.ops.AddV2(i, 1), graph.ops.Mul(v, w)],
        [graph.constant(0), graph.constant(2.0, "float64")],
        invariants=[graph.constant(4), x],
    )
    dx = one(graph, y, x)
    np.testing.assert_allclose(evaluate(graph, dx, {x: 1.5}), 2 * 4 * 1.5**3)
    second = one(graph, dx, x)
    np.testing.assert_allclose(evaluate(graph, second, {x: 1.5}), 2 * 12 * 1.5**2)


def test_the_second_and_third_derivative_of_a_loop() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    y = power(graph, x)
    first = one(graph, y, x)
    second = one(graph, first, x)
    third = one(graph, second, x)
    np.testing.assert_allclose(
        evaluate(graph, [first, second, third], {x: 1.1}), [8 * 1.1**7, 56 * 1.1**6, 336 * 1.1**5]
    )


def nested(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    ops = graph.ops

    def body(i: fe.Tensor, v: fe.Tensor, n: fe.Tensor, w: fe.Tensor) -> Sequence[fe.Tensor]:
        _, inner = while_loop(
            graph,
            lambda j, u, m, z: ops.Less(j, m),
            lambda j, u, m, z: [ops.AddV2(j, 1), ops.Mul(ops.Mul(u, z), u)],
            [ops.Identity(0), v],
            invariants=[i, w],
            name="inner",
        )
        return [ops.AddV2(i, 1), ops.Mul(inner, v)]

    _, y = while_loop(
        graph,
        lambda i, v, n, w: ops.Less(i, n),
        body,
        [graph.constant(0), x],
        invariants=[graph.constant(3), x],
        name="outer",
    )
    return y


def test_nested_loops_to_the_second_order() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    y = nested(graph, x)
    first = one(graph, y, x)
    np.testing.assert_allclose(evaluate(graph, first, {x: 1.01}), differences(graph, y, x, 1.01), rtol=1e-5)
    second = one(graph, first, x)
    np.testing.assert_allclose(
        evaluate(graph, second, {x: 1.01}), differences(graph, first, x, 1.01), rtol=1e-5
    )


def branching(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    ops = graph.ops

    def body(i: fe.Tensor, v: fe.Tensor, n: fe.Tensor, w: fe.Tensor) -> Sequence[fe.Tensor]:
        (result,) = conditional(
            graph,
            ops.Equal(ops.FloorMod(i, 2), 0),
            lambda v, w: [ops.Mul(ops.Mul(v, v), w)],
            lambda v, w: [ops.Mul(v, 3.0)],
            [v, w],
        )
        return [ops.AddV2(i, 1), result]

    _, y = while_loop(
        graph,
        lambda i, v, n, w: ops.Less(i, n),
        body,
        [graph.constant(0), x],
        invariants=[graph.constant(4), x],
    )
    return y


def test_a_conditional_in_a_loop_to_the_second_order() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    y = branching(graph, x)
    first = one(graph, y, x)
    np.testing.assert_allclose(evaluate(graph, first, {x: 0.7}), differences(graph, y, x, 0.7), rtol=1e-5)
    second = one(graph, first, x)
    np.testing.assert_allclose(
        evaluate(graph, second, {x: 0.7}), differences(graph, first, x, 0.7), rtol=1e-5
    )


@pytest.mark.parametrize("taken", [True, False])
def test_a_loop_in_a_conditional(taken: bool) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    pred = graph.placeholder("bool", [], name="pred")
    (y,) = conditional(
        graph,
        pred,
        lambda v: [power(graph, v)],
        lambda v: [graph.ops.Mul(v, 2.0)],
        [x],
    )
    first = one(graph, y, x)
    second = one(graph, first, x)
    expected = [8 * 1.1**7, 56 * 1.1**6] if taken else [2.0, 0.0]
    np.testing.assert_allclose(evaluate(graph, [first, second], {x: 1.1, pred: taken}), expected)


@pytest.mark.parametrize("taken", [True, False])
def test_a_loop_in_a_conditional_that_takes_much_from_outside(taken: bool) -> None:
    """That the loop is in a branch is said by the last only of what its condition depends on."""
    graph = fe.Graph()
    ops = graph.ops
    x, w, bound = (graph.placeholder("float64", [], name=name) for name in ("x", "w", "bound"))
    zero = graph.constant(0)
    pred = graph.placeholder("bool", [], name="pred")

    def squared(v: fe.Tensor) -> Sequence[fe.Tensor]:
        _, y = while_loop(
            graph,
            lambda i, v, n, w: ops.Less(ops.Mul(v, v), n),
            lambda i, v, n, w: [ops.AddV2(i, 1), ops.Mul(ops.Mul(v, v), w)],
            [zero, v],
            invariants=[bound, w],
        )
        return [y]

    (y,) = conditional(graph, pred, squared, lambda v: [ops.Mul(v, 2.0)], [x])
    first = fe.gradients(y, [x, w])
    assert isinstance(first[0], fe.Tensor)
    second = one(graph, first[0], x)
    # x^8 w^7 after three iterations
    expected = [8 * 1.1**7, 7 * 1.1**8, 56 * 1.1**6] if taken else [2.0, 0.0, 0.0]
    found = evaluate(graph, [*first, second], {x: 1.1, w: 1.0, pred: taken, bound: 3.0})
    np.testing.assert_allclose(found, expected)


def test_a_constant_that_nobody_asks_about_is_not_summed() -> None:
    graph = fe.Graph()
    x, w = (graph.placeholder("float64", [], name=name) for name in "xw")
    _, y = while_loop(
        graph,
        lambda i, v, n, w: graph.ops.Less(i, n),
        lambda i, v, n, w: [graph.ops.AddV2(i, 1), graph.ops.Mul(v, w)],
        [graph.constant(0), x],
        invariants=[graph.constant(4), w],
    )
    before = len(graph)
    dx = one(graph, y, x)
    made = [node.op for node in list(graph)[before:]]
    # The counters forward and backward, and the gradient of v.
    assert made.count("NextIteration") == 3
    assert evaluate(graph, dx, {x: 5.0, w: 3.0}) == 3.0**4
    by_both = fe.gradients(y, [x, w])
    assert evaluate(graph, by_both, {x: 5.0, w: 3.0}) == [3.0**4, 5.0 * 4 * 3.0**3]


def test_an_x_in_a_loop_that_the_ys_are_not_in() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    inside: list[fe.Tensor] = []

    def body(i: fe.Tensor, v: fe.Tensor, n: fe.Tensor) -> Sequence[fe.Tensor]:
        inside.append(v)
        return [graph.ops.AddV2(i, 1), graph.ops.Mul(v, v)]

    _, y = while_loop(
        graph,
        lambda i, v, n: graph.ops.Less(i, n),
        body,
        [graph.constant(0), x],
        invariants=[graph.constant(3)],
    )
    with pytest.raises(ValueError, match="a value for each iteration; differentiate by what enters the loop"):
        fe.gradients(y, inside[0])


def test_what_a_condition_computes_is_no_variable() -> None:
    """An Exit may hand on what the condition made of a variable: its gradient would be lost."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [], name="x")
    frame: dict[str, Any] = {"frame_name": "loop", "parallel_iterations": 10}
    enter = ops.Enter(x, **frame)
    merge = ops.Merge([enter, enter]).output
    with graph.control_dependencies([merge]):
        square = ops.Mul(merge, merge)
        goes_on = ops.LoopCond(ops.Less(square, graph.constant(100.0, "float64")))
    last = ops.Switch(merge, goes_on)
    y = ops.Exit(ops.Switch(square, goes_on).output_false, name="of_condition")
    doubled = ops.AddV2(last.output_true, last.output_true)
    graph.set_back_edge(merge, 1, ops.NextIteration(doubled))
    assert evaluate(graph, y, {x: 3.0}) == 144.0
    assert evaluate(graph, one(graph, ops.Exit(last.output_false), x), {x: 3.0}) == 4.0
    with pytest.raises(fe.errors.InvalidArgumentError, match="'of_condition' gives what the condition"):
        fe.gradients(y, x)


def test_a_stack_that_nobody_here_has_made() -> None:
    graph = fe.Graph()
    x, z = (graph.placeholder("float64", [], name=name) for name in "xz")
    handles = [graph.placeholder("resource", [], name=f"stack{i}") for i in range(2)]
    pushed = graph.ops.StackPushV2(handles[0], graph.ops.Mul(x, 2.0))
    popped = [graph.ops.StackPopV2(each, elem_type="float64") for each in handles]
    y = graph.ops.AddN([graph.ops.Mul(power(graph, x), z), graph.ops.Mul(pushed, 3.0), *popped])
    assert evaluate(graph, one(graph, y, z), {x: 2.0, z: 1.0}) == 256.0


def test_within_an_iteration() -> None:
    """A loop around both y and x is not differentiated: the gradient is that of the iteration."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [], name="x")

    def body(i: fe.Tensor, v: fe.Tensor, n: fe.Tensor) -> Sequence[fe.Tensor]:
        (slope,) = fe.gradients(ops.Mul(v, v), v)
        assert slope is not None
        return [ops.AddV2(i, 1), ops.Mul(v, slope)]

    _, y = while_loop(
        graph,
        lambda i, v, n: ops.Less(i, n),
        body,
        [graph.constant(0), x],
        invariants=[graph.constant(2)],
    )
    # v -> 2 v^2, twice
    np.testing.assert_allclose(evaluate(graph, y, {x: 0.9}), 8 * 0.9**4)
    np.testing.assert_allclose(evaluate(graph, one(graph, y, x), {x: 0.9}), 32 * 0.9**3)


@pytest.mark.parametrize("build", [power, nested, branching])
def test_an_imported_graph_is_differentiated_as_one_built_here(build: Callable[..., fe.Tensor]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    y = build(graph, x)
    read = fe.Graph.from_graph_def(graph.to_graph_def().SerializeToString())
    here = evaluate(graph, one(graph, y, x), {x: 0.95})
    (there,) = fe.gradients(read.tensor(y.name), read.tensor("x:0"))
    assert evaluate(read, there, {"x:0": 0.95}) == here
    # The extended graph is read again, and differentiated once more.
    again = fe.Graph.from_graph_def(read.to_graph_def().SerializeToString())
    assert isinstance(there, fe.Tensor)
    (second,) = fe.gradients(again.tensor(there.name), again.tensor("x:0"))
    first_again = again.tensor(there.name)
    np.testing.assert_allclose(
        evaluate(again, second, {"x:0": 0.95}),
        differences(again, first_again, again.tensor("x:0"), 0.95),
        rtol=1e-5,
    )
