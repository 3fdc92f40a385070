"""Writes the two training graphs of this folder: run it with a Python that has TensorFlow 1.15.

The perceptron of the white paper's figure 1 (784 -> 100 -> 10), with devices as TensorFlow's users asked for
them: parameters on a PS task, a tower on each worker.

    synchronous.pb    one graph with both towers; the mean of their gradients, summed in order, is applied
    asynchronous.pb   one worker's graph (`/job:worker/task:0`; the other's differs in that alone); each
                      applies its own gradient to the shared parameters as it comes
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow.compat.v1 as tf

HERE = os.path.dirname(os.path.abspath(__file__))
RATE = 0.1


def parameters() -> Any:
    with tf.device("/job:ps/task:0"):
        tables = []
        for name, shape in (("W", (784, 100)), ("b", (100,)), ("V", (100, 10)), ("c", (10,))):
            variable = tf.get_variable(name, shape, initializer=tf.zeros_initializer(), use_resource=False)
            given = tf.placeholder(tf.float32, shape, name=f"{name}_given")
            tf.assign(variable, given, name=f"{name}_set")
            tables.append(variable)
        step = tf.get_variable(
            "step", (), tf.int64, initializer=tf.zeros_initializer(), use_resource=False, trainable=False
        )
        tf.assign(step, 0, name="step_set")
    return tables, step


def loss_of(tables: Any, number: int) -> Any:
    w, b, v, c = tables
    x = tf.placeholder(tf.float32, (None, 784), name=f"x{number}")
    labels = tf.placeholder(tf.int64, (None,), name=f"labels{number}")
    hidden = tf.nn.relu(tf.matmul(x, w) + b)
    scores = tf.matmul(hidden, v) + c
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores), name=f"loss{number}"
    )


def write(name: str) -> None:
    graph_def = tf.get_default_graph().as_graph_def()
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(graph_def.SerializeToString(deterministic=True))


def synchronous() -> None:
    tables, step = parameters()
    towers = []
    for number in range(2):
        with tf.device(f"/job:worker/task:{number}"):
            towers.append(tf.gradients(loss_of(tables, number), tables))
    with tf.device("/job:ps/task:0"):
        updates = [
            tf.assign_sub(variable, tf.add_n([gradients[index] for gradients in towers]) * (RATE / 2))
            for index, variable in enumerate(tables)
        ]
        with tf.control_dependencies(updates):
            tf.group(tf.assign_add(step, 1), name="train")
    write("synchronous.pb")


def asynchronous() -> None:
    tables, step = parameters()
    with tf.device("/job:worker/task:0"):
        gradients = tf.gradients(loss_of(tables, 0), tables)
    with tf.device("/job:ps/task:0"):
        updates = [
            tf.assign_sub(variable, gradients[index] * RATE, use_locking=True)
            for index, variable in enumerate(tables)
        ]
        with tf.control_dependencies(updates):
            tf.group(tf.assign_add(step, 1, use_locking=True), name="train")
    write("asynchronous.pb")


if __name__ == "__main__":
    for build in (synchronous, asynchronous):
        with tf.Graph().as_default():
            build()
