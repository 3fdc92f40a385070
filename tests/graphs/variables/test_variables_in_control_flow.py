"""Variables and optimizers in branches and loops: what is made there is outside, and used inside."""

from __future__ import annotations

import numpy as np

import flowengine as fe


def test_a_variable_made_in_a_branch_is_trained_through_it() -> None:
    graph = fe.Graph()
    taken = graph.placeholder("bool", [], name="taken")

    def branch() -> fe.Tensor:
        with graph.variable_scope("b"):
            v = graph.get_variable("v", [2], initializer=fe.initializers.ones())
        return v * 3.0

    out = graph.cond(taken, branch, lambda: graph.constant([0.0, 0.0]))
    train = fe.optimizers.Adam(0.1).minimize(fe.reduce_sum(out))
    with fe.blocking.Session(graph) as session:
        assert next(each.name for each in session.initialize()) == "b/v:0"
        assert session.run(out, {taken: False}).tolist() == [0, 0]
        session.run(train, {taken: True})
        np.testing.assert_allclose(session.run(out, {taken: True}), [2.7, 2.7], rtol=1e-6)


def test_a_variable_made_in_a_loop_is_there_once() -> None:
    graph = fe.Graph()

    def body(i: fe.Tensor, x: fe.Tensor) -> tuple[fe.Tensor, fe.Tensor]:
        start = fe.initializers.constant(2.0)
        return i + 1, x * graph.get_variable("w", [], initializer=start, reuse="auto")

    _, x = graph.while_loop(lambda i, x: i < 3, body, [graph.constant(0), graph.constant(1.0)])
    train = fe.optimizers.SGD(0.01).minimize(x)
    with fe.blocking.Session(graph) as session:
        assert [each.name for each in session.initialize()] == ["w:0"]
        assert session.run(x) == 8
        session.run(train)
        np.testing.assert_allclose(session.run(x), (2 - 0.01 * 12) ** 3, rtol=1e-6)


def test_a_step_in_a_branch_is_taken_with_it() -> None:
    graph = fe.Graph()
    taken = graph.placeholder("bool", [], name="taken")
    v = graph.variable([1.0], name="v")
    loss = fe.reduce_sum(v * v)

    def train() -> fe.Tensor:
        with graph.control_dependencies([fe.optimizers.Momentum(0.1, 0.9).minimize(loss)]):
            return graph.constant(1)

    out = graph.cond(taken, train, lambda: graph.constant(0))
    with fe.blocking.Session(graph) as session:
        session.initialize()
        assert session.run(out, {taken: False}) == 0
        assert session.run(v.value()) == [1]
        assert session.run(out, {taken: True}) == 1
        np.testing.assert_allclose(session.run(v.value()), [0.8])
