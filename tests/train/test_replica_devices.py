"""Devices of replicas as TensorFlow 1.15 chooses them, and training on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError

RECORDED: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("replica_devices_of_tensorflow.json").read_text()
)
#: The arguments of the recorded cases.
CASES: dict[str, dict[str, Any]] = {
    "plain": {"ps_tasks": 3},
    "cluster": {
        "cluster": {"ps": ["a:1", "b:1"], "worker": ["c:1"]},
        "worker_device": "/job:worker/task:2/gpu:0",
    },
    "greedy": {"ps_tasks": 2, "ps_strategy": "greedy"},
    "no_job": {"ps_tasks": 2, "ps_device": "/cpu:0", "worker_device": ""},
    "ps_ops": {"ps_tasks": 2, "ps_ops": ["VariableV2", "VarHandleOp"], "worker_device": "/job:worker/task:1"},
}


def built(setter: Any, use_resource: bool) -> fe.Graph:
    graph = fe.Graph()

    def variable(name: str, shape: list[int]) -> None:
        graph.variable(
            fe.initializers.zeros(), shape=shape, dtype="float32", name=name, use_resource=use_resource
        )

    with graph.device(setter):
        variable("a", [100, 4])
        variable("b", [4])
        variable("c", [7])
        with graph.device("/gpu:1"):
            variable("d", [2])
            graph.constant(1.0, name="on_gpu")
        with graph.device("/job:ps/task:1"):
            variable("e", [3])
        with graph.device("/job:other"):
            variable("f", [3])
            graph.constant(1.0, name="on_other")
        with graph.device("/job:worker/task:9/cpu:0"):
            graph.constant(1.0, name="on_nine")
        graph.ops.MutableHashTableV2(key_dtype="string", value_dtype="float32", name="table")
        graph.constant(1.0, name="k")
        with graph.device(None):
            variable("none", [2])
    return graph


@pytest.mark.parametrize("case", [each for each in RECORDED if each != "greedy resource"])
def test_devices_are_those_of_tensorflow(case: str) -> None:
    name, kind = case.split()
    arguments = dict(CASES[name])
    if arguments.get("ps_strategy") == "greedy":
        arguments["ps_strategy"] = fe.train.GreedyLoadBalancingStrategy(2, fe.train.byte_size_load)
    graph = built(fe.train.replica_device_setter(**arguments), kind == "resource")
    assert {node: graph[node].device for node in RECORDED[case]} == RECORDED[case]


def test_variables_of_both_kinds_have_the_load_of_their_values() -> None:
    """TensorFlow counts the handle of a resource variable instead."""
    loads = {}
    for use_resource in (False, True):
        graph = built(None, use_resource)
        for name in ("a", "c", "table"):
            loads[name, use_resource] = fe.train.byte_size_load(graph.operation(name))
    for use_resource in (False, True):
        assert [loads[name, use_resource] for name in ("a", "c", "table")] == [1600, 28, 1]


def test_without_a_parameter_server_there_is_no_function() -> None:
    assert fe.train.replica_device_setter() is None
    graph = fe.Graph()
    with graph.device(fe.train.replica_device_setter(worker_device="/job:worker/task:3")):
        assert graph.constant(1.0).op.device == ""


def test_mistakes_are_told() -> None:
    with pytest.raises(InvalidArgumentError, match=r"the cluster has no job 'ps', but \['worker'\]"):
        fe.train.replica_device_setter(cluster={"worker": ["a:1"]})
    with pytest.raises(InvalidArgumentError, match="cannot read 'job-ps' in the device name"):
        fe.train.replica_device_setter(ps_tasks=1, ps_device="job-ps")
    for make in (
        fe.train.RoundRobinStrategy,
        lambda n: fe.train.GreedyLoadBalancingStrategy(n, fe.train.byte_size_load),
    ):
        with pytest.raises(InvalidArgumentError, match="num_tasks=0 must be at least 1"):
            make(0)
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x").op
    with pytest.raises(InvalidArgumentError, match="the size of 'x' is unknown: its shape is "):
        fe.train.byte_size_load(x)
    with pytest.raises(InvalidArgumentError, match="the load of 'x' is nan: it must be at least 0"):
        fe.train.GreedyLoadBalancingStrategy(2, lambda op: float("nan"))(x)


def test_a_cluster_s_own_description_counts_its_tasks() -> None:
    cluster = fe.ClusterSpec.of({"ps": ["a:1", "b:2"], "worker": ["c:3"]})
    graph = built(fe.train.replica_device_setter(cluster=cluster), True)
    assert [graph[name].device for name in "abc"] == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_a_network_trains_on_them(use_resource: bool) -> None:
    """Slots go with their variables, whatever the function says."""
    losses = []
    for setter in (
        None,
        fe.train.replica_device_setter(ps_tasks=2, ps_device="/cpu:1", worker_device="/cpu:0"),
    ):
        graph = fe.Graph()
        graph.seed = 1
        with graph.device(setter):
            x = graph.placeholder("float32", [None, 3], name="x")
            w = graph.variable(np.ones((3, 4), np.float32), name="w", use_resource=use_resource)
            b = graph.variable(np.zeros(4, np.float32), name="b", use_resource=use_resource)
            loss = fe.reduce_sum(fe.square(fe.nn.relu(x @ w + b) - 1.0))
            step = fe.optimizers.Adam(0.1).minimize(loss)
        with fe.blocking.Session(graph, config=fe.Config(device_count={"CPU": 2})) as session:
            session.initialize()
            rows = np.arange(6, dtype=np.float32).reshape(2, 3)
            losses.append([session.run([loss, step], {x: rows})[0] for _ in range(5)])
    np.testing.assert_array_equal(losses[0], losses[1])
    assert losses[0][-1] < losses[0][0]
