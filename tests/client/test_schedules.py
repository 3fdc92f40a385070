"""Schedules, clipping and moving averages beside TensorFlow 1.15's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("schedules_of_tensorflow.json").read_text())
STEPS = [0, 1, 7, 10, 25, 40, 100]
SCHEDULES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "exponential_decay": ([10, 0.9], {}),
    "natural_exp_decay": ([10, 0.9], {}),
    "inverse_time_decay": ([10, 0.9], {}),
    "exponential_decay staircase": ([10, 0.9], {"staircase": True}),
    "natural_exp_decay staircase": ([10, 0.9], {"staircase": True}),
    "inverse_time_decay staircase": ([10, 0.9], {"staircase": True}),
    "polynomial_decay": ([30], {"end_learning_rate": 0.01, "power": 2.0}),
    "polynomial_decay cycle": ([30], {"end_learning_rate": 0.01, "cycle": True}),
    "cosine_decay": ([30], {"alpha": 0.1}),
    "cosine_decay_restarts": ([10], {"t_mul": 2.0, "m_mul": 0.9, "alpha": 0.1}),
    "linear_cosine_decay": ([30], {"num_periods": 2.5, "alpha": 0.1, "beta": 0.01}),
}
VALUES: Any = np.random.RandomState(3).uniform(-2, 2, [3, 4]).astype(np.float32)


def at_steps(graph: fe.Graph, rate: fe.Tensor) -> list[float]:
    with fe.blocking.Session(graph) as session:
        return [session.run(rate, {"step:0": at}) for at in STEPS]


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_tensorflow(name: str) -> None:
    graph = fe.Graph()
    step = graph.placeholder("int64", [], name="step")
    arguments, options = SCHEDULES[name]
    rate = getattr(fe.schedules, name.split()[0])(0.5, step, *arguments, **options)
    assert rate.dtype.name == "float32"
    np.testing.assert_allclose(at_steps(graph, rate), RECORDED[name], rtol=1e-5, atol=1e-7)


def test_a_piecewise_constant() -> None:
    graph = fe.Graph()
    step = graph.placeholder("int64", [], name="step")
    rate = fe.schedules.piecewise_constant(step, [7, 30], [0.5, 0.2, 0.1])
    np.testing.assert_allclose(at_steps(graph, rate), RECORDED["piecewise_constant"])
    with pytest.raises(fe.errors.InvalidArgumentError, match="one value more"):
        fe.schedules.piecewise_constant(step, [7], [0.5])


def test_noise_is_around_the_schedule_and_falls() -> None:
    graph = fe.Graph()
    step = graph.placeholder("int64", [], name="step")
    noisy = fe.schedules.noisy_linear_cosine_decay(0.5, step, 200, initial_variance=0.01, seed=3)
    plain = fe.schedules.linear_cosine_decay(0.5, step, 200)
    with fe.blocking.Session(graph) as session:
        apart = [np.subtract(*session.run([noisy, plain], {step: at})) for at in [0] * 20 + [100] * 20]
    assert 0.02 < np.std(apart[:20]) < 0.09
    assert np.std(apart[20:]) < 0.5 * np.std(apart[:20])


def test_a_step_is_of_a_graph() -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match="count of steps"):
        fe.schedules.cosine_decay(0.5, 3, 30)


def test_clipped_gradients_are_those_of_tensorflow() -> None:
    graph = fe.Graph()
    x = graph.constant(VALUES)
    double = graph.ops.Mul(x, 2.0)
    scaled, norm = fe.clip_by_global_norm([x, None, double], 2.0)
    assert scaled[1] is None
    clips = {
        "clip_by_value": fe.clip_by_value(x, -0.5, 1.0),
        "clip_by_norm": fe.clip_by_norm(x, 1.5),
        "clip_by_norm axes": fe.clip_by_norm(x, 1.5, axes=[1]),
        "clip_by_average_norm": fe.clip_by_average_norm(x, 0.1),
        "clip_by_global_norm": scaled[2],
        "global_norm": norm,
    }
    with fe.blocking.Session(graph) as session:
        for name, value in session.run(clips).items():
            np.testing.assert_allclose(np.ravel(value), RECORDED[name], rtol=1e-5, err_msg=name)


def test_slices_are_clipped_as_slices() -> None:
    graph = fe.Graph()
    slices = fe.IndexedSlices(graph.constant([[3.0, 4.0]]), graph.constant([2]))
    clipped = fe.clip_by_norm(slices, 1.0)
    assert isinstance(clipped, fe.IndexedSlices)
    assert clipped.indices == slices.indices
    with fe.blocking.Session(graph) as session:
        np.testing.assert_allclose(session.run(clipped.values), [[0.6, 0.8]], rtol=1e-6)
        assert session.run(fe.global_norm([slices])) == 5


def test_an_infinite_norm_makes_all_nan() -> None:
    graph = fe.Graph()
    (clipped,), _ = fe.clip_by_global_norm([graph.constant([np.inf, 1.0])], 1.0)
    with fe.blocking.Session(graph) as session:
        assert np.isnan(session.run(clipped)).all()
    with pytest.raises(fe.errors.InvalidArgumentError, match="all gradients are None"):
        fe.global_norm([None])


@pytest.mark.parametrize("use_resource", [True, False])
def test_moving_averages_are_those_of_tensorflow(use_resource: bool) -> None:
    graph = fe.Graph()
    count = graph.variable(0, name="count", trainable=False, use_resource=use_resource)
    v = graph.variable([1.0, 2.0], name="v", use_resource=use_resource)
    t = graph.ops.Mul(v.value(), 3.0, name="t")
    plain = fe.ExponentialMovingAverage(0.9, num_updates=count)
    corrected = fe.ExponentialMovingAverage(0.9, zero_debias=True, name="corrected")
    updates = [plain.apply([v]), corrected.apply([t])]
    averages = [plain.average(v), corrected.average(t)]
    assert sorted(each.op.name for each in graph.collection("variables")) == RECORDED["names"]
    assert plain.variables_to_restore([v, count]) == {"v/ExponentialMovingAverage": v, "count": count}
    grown = v.assign_add([1.0, -1.0])
    with fe.blocking.Session(graph) as session:
        session.initialize()
        for wanted in RECORDED["averages"]:
            session.run([grown, count.assign_add(1)])
            session.run([], targets=updates)
            found = session.run([each.value() for each in averages if each is not None])
            np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_an_average_starts_where_a_checkpoint_left_its_variable() -> None:
    graph = fe.Graph()
    v = graph.variable([1.0], name="v")
    average = fe.ExponentialMovingAverage(0.9)
    average.apply([v])
    held = average.average(v)
    assert held is not None
    with fe.blocking.Session(graph) as session:
        session.run([], targets=[v.assign_op([5.0])])
        assert session.initialize() == [held]
        assert session.run(held.value()) == [5]
    with pytest.raises(fe.errors.InvalidArgumentError, match="only floats"):
        average.apply([graph.constant(1)])


def test_regularisers() -> None:
    graph = fe.Graph()
    x = graph.constant([[1.0, -2.0]])
    penalties = [fe.regularizers.l1(0.5)(x), fe.regularizers.l2(0.5)(x), fe.regularizers.l1_l2(0.5, 2.0)(x)]
    with fe.blocking.Session(graph) as session:
        assert session.run(penalties) == [1.5, 1.25, 6.5]
    with pytest.raises(fe.errors.InvalidArgumentError, match="at least 0"):
        fe.regularizers.l2(-1)
