"""Optimizers beside TensorFlow 1.15 over 20 steps: values, slots and names; and what they say that fails."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from tests.client import optimizer_cases as cases

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("optimizers_of_tensorflow.json").read_text())


def problem(name: str, sparse: bool, use_resource: bool) -> tuple[fe.Graph, Any, Any]:
    """A graph with the loss of the recorded cases, its variable, and the operation that takes a step."""
    graph = fe.Graph()
    return graph, *problem_in(graph, name, sparse, use_resource)


def problem_in(graph: fe.Graph, name: str, sparse: bool, use_resource: bool) -> tuple[Any, Any]:
    """As `problem`, in a graph."""
    ops = graph.ops
    step = graph.variable(0, name="global_step", dtype="int64", trainable=False, use_resource=use_resource)
    w = graph.variable(cases.START, name="w", use_resource=use_resource)
    if sparse and use_resource:
        rows = ops.ResourceGather(w.handle, cases.PICKED, dtype="float32")
    elif sparse:
        rows = ops.GatherV2(w.value(), cases.PICKED, 0)
    else:
        rows = w.value()
    picked = cases.PICKED if sparse else slice(None)
    apart = ops.Sub(rows, cases.TARGET[picked])
    loss = ops.Sum(ops.Mul(ops.Square(apart), cases.WEIGHT[picked]), [0, 1])
    kind, _, arguments, _ = cases.CASES[name]
    extra = {"global_step": step} if kind == "AdaGradDA" else {}
    optimizer = getattr(fe.optimizers, kind)(**arguments, **extra)
    return w, optimizer.minimize(loss, global_step=step)


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", cases.CASES)
def test_variables_are_placed_in_turn(name: str, sparse: bool, use_resource: bool) -> None:
    turns = itertools.count()

    def in_turn(op: fe.Operation) -> str:
        return f"/device:CPU:{next(turns) % 3}" if op.type in ("VarHandleOp", "VariableV2") else op.device

    graph = fe.Graph()
    with graph.device(in_turn):
        w, train = problem_in(graph, name, sparse, use_resource)
    devices = {node.device for node in graph if node.op in ("VarHandleOp", "VariableV2")}
    assert len(devices) > 1
    with fe.blocking.Session(graph, config=fe.Config(device_count={"CPU": 3})) as session:
        session.initialize()
        for _ in range(cases.SEEN[0]):
            session.run([], targets=[train])
        seen = session.run(w.value()).ravel()
    recorded = RECORDED[name]["sparse" if sparse else "dense"]
    np.testing.assert_allclose(seen, recorded["seen"][0], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", cases.CASES)
def test_twenty_steps_are_those_of_tensorflow(name: str, sparse: bool, use_resource: bool) -> None:
    graph, w, train = problem(name, sparse, use_resource)
    recorded = RECORDED[name]["sparse" if sparse else "dense"]
    assert train.name == recorded["train"]
    variables = {each.op.name: each for each in graph.collection("variables")}
    assert variables.keys() - {"w", "global_step"} == recorded["others"].keys()
    seen = []
    with fe.blocking.Session(graph) as session:
        session.initialize()
        for count in range(1, cases.STEPS + 1):
            session.run([], targets=[train])
            if count in cases.SEEN:
                seen.append(session.run(w.value()).ravel())
        others = session.run({key: variables[key].value() for key in recorded["others"]})
        assert session.run(variables["global_step"].value()) == cases.STEPS
    np.testing.assert_allclose(seen, recorded["seen"], rtol=2e-5, atol=2e-6)
    for key, value in others.items():
        np.testing.assert_allclose(
            np.ravel(value), recorded["others"][key], rtol=5e-5, atol=2e-6, err_msg=key
        )


def test_slots_are_beside_their_variable_and_found_by_name() -> None:
    graph = fe.Graph()
    v = graph.variable([1.0, 2.0], name="v")
    optimizer = fe.optimizers.Adam()
    assert optimizer.slot(v, "m") is None
    train = optimizer.minimize(graph.ops.L2Loss(v.value()))
    assert optimizer.slot_names == ["m", "v"]
    slot = optimizer.slot(v, "v")
    assert slot is not None
    assert (slot.name, slot.trainable, slot.shape) == ("v/Adam_1:0", False, v.shape)
    assert slot.op.node.attrs["_class"] == (b"loc:@v",)
    assert [each.name for each in optimizer.variables()] == [
        "beta1_power:0",
        "beta2_power:0",
        "v/Adam:0",
        "v/Adam_1:0",
    ]
    assert graph.collection("train_op") == [train]
    assert graph.collection("trainable_variables") == [v]


def test_two_optimizers_have_slots_of_their_own() -> None:
    graph = fe.Graph()
    v = graph.variable([1.0], name="v")
    loss = graph.ops.L2Loss(v.value())
    names = []
    for _ in range(2):
        optimizer = fe.optimizers.Momentum(0.1, 0.9)
        names.append(optimizer.minimize(loss).name)
        names.append(optimizer.variables()[0].name)
    assert names == ["Momentum", "v/Momentum:0", "Momentum_1", "v/Momentum_1:0"]


def test_slots_of_parts_are_parts() -> None:
    graph = fe.Graph()
    v = graph.variable(np.ones([5, 2], np.float32), name="v", partitioner=fe.partitioners.fixed_size(2))
    optimizer = fe.optimizers.AdaGrad(0.1)
    train = optimizer.minimize(graph.ops.L2Loss(v.value()))
    slot = optimizer.slot(v.parts[1], "accumulator")
    assert slot is not None
    assert slot.save_slice is not None
    assert (slot.save_slice.full_name, slot.save_slice.spec) == ("v/Adagrad", "5 2 3,2:-")
    with fe.blocking.Session(graph) as session:
        session.initialize()
        session.run([], targets=[train])
        assert np.all(session.run(v.value()) < 1)


def test_a_constraint_holds_after_each_step() -> None:
    graph = fe.Graph()
    for use_resource in (True, False):
        v = graph.variable(
            [1.0, -1.0], use_resource=use_resource, constraint=lambda x: graph.ops.Maximum(x, 0.5)
        )
        train = fe.optimizers.SGD(0.1).minimize(graph.ops.Sum(v.value(), [0]), variables=[v])
        with fe.blocking.Session(graph) as session:
            session.initialize()
            session.run([], targets=[train])
            np.testing.assert_allclose(session.run(v.value()), [0.9, 0.5])
        sparse = graph.ops.Sum(graph.ops.GatherV2(v.value(), [0], 0), [0])
        pairs = fe.optimizers.SGD(0.1).compute_gradients(sparse, [v])
        if isinstance(pairs[0][0], fe.IndexedSlices):
            with pytest.raises(fe.errors.InvalidArgumentError, match="constraint"):
                fe.optimizers.SGD(0.1).apply_gradients(pairs)


def test_a_rate_may_be_a_tensor_or_a_variable() -> None:
    graph = fe.Graph()
    rate = graph.variable(0.5, name="rate", dtype="float64", trainable=False)
    v = graph.variable([2.0], name="v")
    for each in (rate, rate.value(), graph.placeholder("float32", [], name="fed")):
        train = fe.optimizers.SGD(each).minimize(graph.ops.Sum(v.value(), [0]))
        with fe.blocking.Session(graph) as session:
            session.initialize()
            session.run([], {"fed:0": 0.5}, targets=[train])
            assert session.run(v.value()) == [1.5]


def test_variables_of_two_types_in_one_step() -> None:
    graph = fe.Graph()
    a, b = graph.variable([1.0], dtype="float32"), graph.variable([1.0], dtype="float64")
    loss = graph.ops.Add(
        graph.ops.Cast(graph.ops.L2Loss(a.value()), DstT="float64"), graph.ops.L2Loss(b.value())
    )
    train = fe.optimizers.Adam(0.1).minimize(loss)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        session.run([], targets=[train])
        np.testing.assert_allclose(session.run([a.value(), b.value()]), [[0.9], [0.9]], rtol=1e-6)


def test_variables_that_do_not_decay() -> None:
    graph = fe.Graph()
    a, b = graph.variable([1.0]), graph.variable([1.0])
    loss = graph.ops.Mul(graph.ops.Sum(graph.ops.Add(a.value(), b.value()), [0]), 0.0)
    train = fe.optimizers.AdamW(0.25, decayed=[a]).minimize(loss)
    with fe.blocking.Session(graph) as session:
        session.initialize()
        session.run([], targets=[train])
        assert session.run([a.value(), b.value()]) == [[0.75], [1]]


def test_what_does_not_fit_is_told() -> None:
    graph = fe.Graph()
    loss = graph.constant(1.0)
    with pytest.raises(fe.errors.InvalidArgumentError, match="no variable to optimize"):
        fe.optimizers.SGD(0.1).minimize(loss)
    graph.variable([1.0])
    with pytest.raises(fe.errors.InvalidArgumentError, match="all gradients are None"):
        fe.optimizers.SGD(0.1).minimize(loss)
    with pytest.raises(fe.errors.InvalidArgumentError, match="positive"):
        fe.optimizers.AdaGrad(0.1, initial_accumulator_value=0)
    with pytest.raises(fe.errors.InvalidArgumentError, match="at most 0"):
        fe.optimizers.FTRL(0.1, learning_rate_power=0.5)
