"""Graphs whose ops ask for another task than that of their resource, with TensorFlow 1.15's values.

    PYTHON_OF_TENSORFLOW tests/cluster/graphs/write_edges.py

Writes `edges.json` beside itself: {name: [GraphDef in base64, values of three steps]}. Each graph has a
resource made in the scope of /job:ps/task:0 and used in that of /job:worker/task:0; `i` runs first, `y` is
fetched three times. Two servers of this process run them.
"""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.contrib import lookup
from tensorflow.python.ops import data_flow_ops

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
#: {name: what makes a resource, and returns what initializes and what uses it}
CASES: dict[str, Callable[[], tuple[Any, Any]]] = {}


def case(function: Callable[[], tuple[Any, Any]]) -> Callable[[], tuple[Any, Any]]:
    """Keep a function that makes a resource, and returns what initializes and what uses it."""
    CASES[function.__name__] = function
    return function


def variable(resource: bool, value: tuple[float, ...] = (1.0, 2.0, 3.0)) -> Any:
    return tf.get_variable("v", initializer=tf.constant(value), use_resource=resource)


def of_variable(name: str, use: Callable[[Any], Any]) -> None:
    for resource in (False, True):

        def made(resource: bool = resource) -> tuple[Any, Any]:
            x = variable(resource)
            return (lambda: x.initializer), lambda: use(x)

        made.__name__ = f"{'resource' if resource else 'reference'}_{name}"
        case(made)


def after(op: Any, value: Any) -> Any:
    with tf.control_dependencies([op]):
        return tf.identity(value() if callable(value) else value)


of_variable("assign_add", lambda x: tf.identity(x.assign_add([1.0, 1.0, 1.0])))
of_variable("assign_sub", lambda x: tf.identity(x.assign_sub([1.0, 0.5, 1.0])))
of_variable("assign", lambda x: tf.identity(x.assign(tf.constant([4.0, 5.0, 6.0]) * 2.0)))
of_variable("scatter_add", lambda x: tf.identity(tf.scatter_add(x, [0, 2], [5.0, 5.0])))
of_variable("scatter_update", lambda x: tf.identity(tf.scatter_update(x, [1], [7.0])))
of_variable("gather", lambda x: tf.gather(x, [0, 2]))
of_variable("gather_nd", lambda x: tf.gather_nd(x, [[2], [1]]))
of_variable("read", lambda x: x.read_value() + 1.0)
of_variable(
    "gradient",
    lambda x: after(
        tf.train.GradientDescentOptimizer(0.25).minimize(tf.reduce_sum(tf.square(x))), x.read_value
    ),
)
of_variable(
    "loop",
    lambda x: tf.while_loop(
        lambda n: n < 3.0, lambda n: n + tf.reduce_sum(x.assign_add([1.0, 0.0, 0.0])), [0.0]
    ),
)
of_variable(
    "cond",
    lambda x: tf.cond(
        tf.reduce_sum(x) < 9.0,
        lambda: tf.identity(x.assign_add([1.0, 1.0, 1.0])),
        lambda: tf.identity(x) * 10.0,
    ),
)


@case
def momentum() -> tuple[Any, Any]:
    x = variable(True)

    def use() -> Any:
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(tf.square(x)))
        return after(train, x.read_value)

    return tf.global_variables_initializer, use


@case
def count_up_to() -> tuple[Any, Any]:
    x = tf.get_variable("v", initializer=tf.constant(3), use_resource=False)
    return (lambda: x.initializer), lambda: tf.count_up_to(x, 10)


@case
def queue_dequeue() -> tuple[Any, Any]:
    queue = tf.FIFOQueue(9, ["float32"], [[]])
    put = queue.enqueue_many([[1.0, 2.0, 3.0]])
    return (lambda: put), queue.dequeue


@case
def queue_enqueue() -> tuple[Any, Any]:
    queue = tf.FIFOQueue(9, ["float32"], [[]])
    return tf.no_op, lambda: after(queue.enqueue_many([[1.0, 2.0]]), queue.size)


@case
def queue_dequeue_many() -> tuple[Any, Any]:
    queue = tf.PaddingFIFOQueue(9, ["float32"], [[None]])
    put = queue.enqueue(([1.0],))
    return (lambda: put), lambda: after(queue.enqueue_many([[[1.0], [1.0]]]), lambda: queue.dequeue_many(2))


@case
def priority_queue() -> tuple[Any, Any]:
    queue = tf.PriorityQueue(9, ["float32"], [[]])
    put = queue.enqueue_many([tf.constant([3, 1, 2], "int64"), [30.0, 10.0, 20.0]])
    return (lambda: put), lambda: queue.dequeue()[1]


@case
def table_lookup() -> tuple[Any, Any]:
    table = lookup.HashTable(lookup.KeyValueTensorInitializer(["a"], [7]), -1)
    return (lambda: table.init), lambda: table.lookup(tf.constant(["a", "b"]))


@case
def table_insert() -> tuple[Any, Any]:
    table = lookup.MutableHashTable("string", "float32", -1.0)
    return tf.no_op, lambda: after(
        table.insert(tf.constant(["a"]), [5.0]), lambda: table.lookup(tf.constant(["a", "b"]))
    )


@case
def dense_table() -> tuple[Any, Any]:
    table = lookup.MutableDenseHashTable("int64", "float32", -1.0, empty_key=-1, deleted_key=-2)
    return tf.no_op, lambda: after(
        table.insert(tf.constant([4], "int64"), [5.0]), lambda: table.lookup(tf.constant([4, 6], "int64"))
    )


@case
def accumulator() -> tuple[Any, Any]:
    gradients = tf.ConditionalAccumulator("float32", [])
    return tf.no_op, lambda: after(gradients.apply_grad(4.0, 9), lambda: gradients.take_grad(1))


@case
def sparse_accumulator() -> tuple[Any, Any]:
    gradients = tf.SparseConditionalAccumulator("float32", [4, 1])

    def use() -> Any:
        given = tf.IndexedSlices([[2.0], [3.0]], tf.constant([1, 3], "int64"), tf.constant([4, 1], "int64"))
        return after(
            gradients.apply_indexed_slices_grad(given, 9),
            lambda: gradients.take_indexed_slices_grad(1).values,
        )

    return tf.no_op, use


@case
def barrier() -> tuple[Any, Any]:
    made = data_flow_ops.Barrier(["float32"], shapes=[[]])

    def use() -> Any:
        keys = tf.constant(["k"])
        with tf.control_dependencies([made.insert_many(0, keys, [2.0])]):
            return made.take_many(1)[2]

    return tf.no_op, use


@case
def staging_area() -> tuple[Any, Any]:
    area = data_flow_ops.StagingArea(["float32"], [[]])
    return tf.no_op, lambda: after(area.put([tf.constant(3.0)]), lambda: area.get()[0])


@case
def tensor_array() -> tuple[Any, Any]:
    array = tf.TensorArray("float32", 2, infer_shape=False)

    def use() -> Any:
        return array.write(0, 1.0).write(1, 2.0).stack()

    return tf.no_op, use


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return int(free.getsockname()[1])


def main() -> None:
    """Build, run and write them."""
    spec = tf.train.ClusterSpec({"ps": [f"localhost:{free_port()}"], "worker": [f"localhost:{free_port()}"]})
    servers = [tf.train.Server(spec, job, 0) for job in ("ps", "worker")]
    written = {}
    for name, function in sorted(CASES.items()):
        with tf.Graph().as_default() as graph, tf.container(name.replace("_", "-")):
            with tf.device(PS):
                initialize, use = function()
            with tf.device(WORKER):
                tf.identity(use(), "y")
            tf.group(initialize(), name="i")
            with tf.Session(servers[1].target) as session:
                session.run(graph.get_operation_by_name("i"))
                values = [np.asarray(session.run("y:0")).tolist() for _ in range(3)]
            data = graph.as_graph_def().SerializeToString()
        written[name] = [base64.b64encode(data).decode(), values]
        print(name, values, flush=True)
    Path(__file__).with_name("edges.json").write_text(json.dumps(written, indent=1) + "\n")
    os._exit(0)  # the servers never end


if __name__ == "__main__":
    main()
