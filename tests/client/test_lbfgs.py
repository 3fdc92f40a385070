"""L-BFGS beside SciPy's, and loss scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

import flowengine as fe
from tests.client import exchanged


@pytest.mark.parametrize("use_resource", [True, False])
def test_the_valley_of_rosenbrock(use_resource: bool) -> None:
    graph = fe.Graph()
    x = graph.variable(np.array([-1.2, 1.0, -0.5, 2.0]), name="x", use_resource=use_resource)
    loss = fe.reduce_sum(100.0 * fe.square(x[1:] - fe.square(x[:-1])) + fe.square(1.0 - x[:-1]))
    with fe.blocking.Session(graph) as session:
        session.initialize()
        found = session.call(fe.optimizers.lbfgs, loss, steps=200)
        at = session.run(x.value())
    wanted = optimize.minimize(
        optimize.rosen, [-1.2, 1.0, -0.5, 2.0], jac=optimize.rosen_der, method="L-BFGS-B"
    )
    assert found.reason in ("gradient", "loss")
    assert found.loss <= wanted.fun + 1e-8
    np.testing.assert_allclose(at, np.ones(4), atol=1e-4)
    assert found.evaluations < 3 * wanted.nfev


def test_a_gaussian_process_finds_its_numbers() -> None:
    graph = exchanged.build("gaussian_process", "float64")
    loss = graph.tensor("loss:0")
    (logs,) = graph.collection("trainable_variables")

    def objective(place: Any) -> tuple[float, Any]:
        session.run([], targets=[logs.assign_op(place)])
        value, slope = session.run([loss, gradient])
        return float(value), slope

    (gradient,) = fe.gradients(loss, logs)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        found = session.call(fe.optimizers.lbfgs, loss)
        at = session.run(logs.value())
        wanted = optimize.minimize(objective, [0.0, 0.0, -2.0], jac=True, method="L-BFGS-B")
    assert found.loss == pytest.approx(wanted.fun, abs=1e-5)
    np.testing.assert_allclose(at, wanted.x, atol=1e-3)


def test_several_variables_of_several_types_and_parts() -> None:
    graph = fe.Graph()
    fed = graph.placeholder("float32", [2], name="fed")
    a = graph.variable([5.0, 5.0], name="a")
    b = graph.variable(np.zeros([3, 2]), name="b", partitioner=fe.partitioners.fixed_size(2))
    unused = graph.variable([1.0], name="unused")
    wanted = np.arange(6.0).reshape(3, 2)
    loss = fe.cast(fe.reduce_sum(fe.square(a - fed)), "float64") + fe.reduce_sum(fe.square(b - wanted))
    with fe.blocking.Session(graph) as session:
        session.initialize()
        found = session.call(fe.optimizers.lbfgs, loss, feeds={fed: [1.0, 2.0]})
        np.testing.assert_allclose(session.run(a.value()), [1, 2], atol=1e-4)
        np.testing.assert_allclose(session.run(b.value()), wanted, atol=1e-4)
        assert session.run(unused.value()) == [1]
        assert session.call(fe.optimizers.lbfgs, loss, feeds={fed: [1.0, 2.0]}, steps=0).steps == 0
        with pytest.raises(fe.errors.InvalidArgumentError, match="depends on none of the variables"):
            session.call(fe.optimizers.lbfgs, loss, variables=[unused])
        with pytest.raises(fe.errors.InvalidArgumentError, match="at least 1"):
            session.call(fe.optimizers.lbfgs, loss, memory=0)
    assert found.loss < 1e-6


def test_a_scaled_loss_takes_the_same_steps() -> None:
    values = []
    for scaled in (False, True):
        graph = fe.Graph()
        v = graph.variable([1.0, -2.0, 3.0], name="v")
        loss = fe.reduce_sum(fe.square(v)) + fe.reduce_sum(
            graph.ops.ResourceGather(v.handle, [1, 1], dtype="float32")
        )
        optimizer: fe.optimizers.Optimizer = fe.optimizers.Momentum(0.1, 0.9)
        if scaled:
            optimizer = fe.optimizers.LossScaling(optimizer, scale=1024.0)
        train = optimizer.minimize(loss)
        with fe.blocking.Session(graph) as session:
            session.initialize()
            for _ in range(5):
                session.run(train)
            values.append(session.run(v.value()))
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)


def test_a_step_that_is_not_finite_changes_nothing_but_the_scale() -> None:
    graph = fe.Graph()
    fed = graph.placeholder("float32", [], name="fed")
    step = graph.variable(0, name="step", dtype="int64", trainable=False)
    v = graph.variable([1.0], name="v")
    adam = fe.optimizers.Adam(0.1)
    scaling = fe.optimizers.LossScaling(adam, scale=8.0, growth_interval=2)
    train = scaling.minimize(fe.reduce_sum(v) * fed, global_step=step)
    assert scaling.slot_names == ["m", "v"]
    assert scaling.slot(v, "m") is adam.slot(v, "m")
    seen = []
    with fe.blocking.Session(graph) as session:
        session.initialize()
        watched = [each.value() for each in (scaling.scale(graph), step, *adam.variables()[:1], v)]
        for value in (1.0, np.inf, 1.0, 1.0, np.nan):
            session.run(train, {fed: value})
            seen.append([float(np.squeeze(each)) for each in session.run(watched)])
    assert [row[0] for row in seen] == [8, 4, 4, 8, 4]
    assert [row[1] for row in seen] == [1, 1, 2, 3, 3]
    assert seen[1][2:] == seen[0][2:]
    assert seen[4][2:] == seen[3][2:]


def test_small_gradients_of_halves_survive() -> None:
    graph = fe.Graph()
    v = graph.variable(np.array([1.0], np.float16), name="v")
    loss = fe.reduce_sum(v * np.float16(1e-4) * np.float16(1e-4))
    ((plain, _),) = fe.optimizers.SGD(1.0).compute_gradients(loss)
    scaling = fe.optimizers.LossScaling(fe.optimizers.SGD(1.0), scale=2.0**15)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        assert session.run(plain) == 0
        scale = scaling.scale(graph)
        session.initialize([scale])
        scaled = fe.gradients(loss * fe.cast(scale, "float16"), v)[0]
        assert session.run(scaled) > 0
    with pytest.raises(fe.errors.InvalidArgumentError, match="factor above 1"):
        fe.optimizers.LossScaling(fe.optimizers.SGD(1.0), factor=1.0)
