"""TensorFlow's side of the exchange of graphs: `test_exchange.py` calls it, or a person to record losses.

python -m tests.client.exchange_in_tensorflow play GRAPH.meta STEPS       losses, as JSON
python -m tests.client.exchange_in_tensorflow build MODEL DTYPE GRAPH.meta
python -m tests.client.exchange_in_tensorflow record                      exchange_of_tensorflow.json
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow

from tests.client import exchanged as data

tf = tensorflow.compat.v1


def play(steps: int, restored: str | None = None, saved: str | None = None) -> list[float]:
    """The losses of the default graph's steps, after one checkpoint and before another."""
    graph = tf.get_default_graph()
    loss, train = graph.get_tensor_by_name("loss:0"), graph.get_operation_by_name("train")
    losses = []
    with tf.Session() as session:
        if restored is None:
            session.run(tf.global_variables_initializer())
        else:
            tf.train.Saver().restore(session, restored)
        for _ in range(steps):
            losses.append(float(session.run(loss)))
            session.run(train)
        if saved is not None:
            tf.train.Saver().save(session, saved, write_meta_graph=False)
    return losses


def build(model: str, dtype: str) -> None:
    """A model in the default graph."""
    loss, train = {"mlp_adagrad": mlp, "kmeans_em": kmeans, "gaussian_process": process}[model](dtype)
    tf.identity(loss, name="loss")
    tf.group(train, name="train")


def mlp(dtype: str) -> Any:
    with tf.variable_scope("hidden", use_resource=True):
        kernel = tf.get_variable("kernel", initializer=data.HIDDEN.astype(dtype))
        bias = tf.get_variable("bias", initializer=np.zeros(8, dtype))
        hidden = tf.nn.relu(tf.matmul(data.IMAGES.astype(dtype), kernel) + bias)
    with tf.variable_scope("output"):
        kernel = tf.get_variable("kernel", initializer=data.OUTPUT.astype(dtype))
        logits = tf.matmul(hidden, kernel)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=data.LABELS, logits=logits))
    return loss, tf.train.AdagradOptimizer(0.1).minimize(loss)


def kmeans(dtype: str) -> Any:
    points = tf.constant(data.POINTS.astype(dtype))
    centres = tf.Variable(data.CENTRES.astype(dtype), name="centres")
    distances = tf.reduce_sum(tf.square(points[:, None, :] - centres[None]), axis=2)
    nearest = tf.argmin(distances, axis=1)
    loss = tf.reduce_mean(tf.reduce_min(distances, axis=1))
    sums = tf.unsorted_segment_sum(points, nearest, 3)
    counts = tf.unsorted_segment_sum(tf.ones_like(points[:, :1]), nearest, 3)
    with tf.control_dependencies([loss]):
        return loss, centres.assign(sums / tf.maximum(counts, 1))


def process(dtype: str) -> Any:
    at, seen = tf.constant(data.AT.astype(dtype)), tf.constant(data.SEEN[:, None].astype(dtype))
    logs = tf.Variable(np.array([0.0, 0.0, -2.0], dtype), name="logs", use_resource=True)
    length, height, noise = (tf.exp(logs[each]) for each in range(3))
    apart = tf.square((at - tf.transpose(at)) / length)
    covariance = tf.square(height) * tf.exp(apart * -0.5) + (tf.square(noise) + 1e-6) * tf.eye(
        25, dtype=dtype
    )
    lower = tf.linalg.cholesky(covariance)
    solved = tf.linalg.cholesky_solve(lower, seen)
    loss = 0.5 * tf.reduce_sum(seen * solved) + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(lower)))
    return loss, tf.train.GradientDescentOptimizer(0.01).minimize(loss)


def main(verb: str, *arguments: str) -> None:
    if verb == "play":
        tf.train.import_meta_graph(arguments[0])
        print(json.dumps(play(int(arguments[1]))))
    elif verb in ("go-on", "save"):
        model, dtype, prefix, count = arguments
        build(model, dtype)
        restored, saved = (prefix, None) if verb == "go-on" else (None, prefix)
        print(json.dumps(play(int(count), restored, saved)))
    elif verb == "build":
        build(arguments[0], arguments[1])
        tf.train.export_meta_graph(arguments[2])
    else:
        found = {}
        for model in data.MODELS:
            for dtype, steps in (("float32", 20), ("float64", 100)):
                with tf.Graph().as_default():
                    build(model, dtype)
                    found[f"{model} {dtype}"] = play(steps)
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exchange_of_tensorflow.json")
        with open(path, "w") as file:
            file.write(
                "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
