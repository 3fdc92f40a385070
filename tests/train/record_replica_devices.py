"""Record the devices that TensorFlow 1.15's `replica_device_setter` chooses.

    PYTHON_OF_TENSORFLOW tests/train/record_replica_devices.py

Writes `replica_devices_of_tensorflow.json` beside itself: {case: {node: device}}.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.contrib import lookup
from tensorflow.contrib.training import GreedyLoadBalancingStrategy, byte_size_load_fn

#: {case: arguments}; "greedy" stands for that strategy over two tasks.
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


def devices(setter: Any, use_resource: bool) -> dict[str, str]:
    """Return the devices of variables, a table and constants in several scopes."""
    with tf.Graph().as_default() as graph, tf.device(setter):

        def variable(name: str, shape: list[int]) -> None:
            tf.get_variable(name, shape, initializer=tf.zeros_initializer(), use_resource=use_resource)

        variable("a", [100, 4])
        variable("b", [4])
        variable("c", [7])
        with tf.device("/gpu:1"):
            variable("d", [2])
            tf.constant(1.0, name="on_gpu")
        with tf.device("/job:ps/task:1"):
            variable("e", [3])
        with tf.device("/job:other"):
            variable("f", [3])
            tf.constant(1.0, name="on_other")
        with tf.device("/job:worker/task:9/cpu:0"):
            tf.constant(1.0, name="on_nine")
        lookup.MutableHashTable("string", "float32", -1.0, name="table")
        tf.constant(1.0, name="k")
        with tf.device(None):
            variable("none", [2])
    kinds = ("VariableV2", "VarHandleOp", "MutableHashTableV2")
    names = ("on_gpu", "on_other", "on_nine", "k")
    nodes = graph.as_graph_def().node
    return {node.name: node.device for node in nodes if node.op in kinds or node.name in names}


def main() -> None:
    """Record all cases, with variables of both kinds."""
    found = {}
    for use_resource in (False, True):
        for name, given in CASES.items():
            arguments = dict(given)
            if arguments.get("ps_strategy") == "greedy":
                arguments["ps_strategy"] = GreedyLoadBalancingStrategy(2, byte_size_load_fn)
            setter = tf.train.replica_device_setter(**arguments)
            found[f"{name} {'resource' if use_resource else 'reference'}"] = devices(setter, use_resource)
    path = Path(__file__).with_name("replica_devices_of_tensorflow.json")
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
