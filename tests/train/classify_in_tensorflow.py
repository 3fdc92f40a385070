"""A classifier that reads a file through queues, as people trained them: TensorFlow's side of a shared run.

    python classify_in_tensorflow.py FOLDER STEPS

Goes on from the latest checkpoint in FOLDER with its MetaGraphDef, begins with a graph of its own where there
is none, trains so many steps, saves, and prints the losses as JSON. Five steps are one epoch of `rows.csv`,
in order: a run that goes on after a multiple of five reads what one without an interruption reads.
`classifier_of_tensorflow.zip` is FOLDER after 50 steps, with the losses of 150.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.logging.set_verbosity(tf1.logging.ERROR)
ROWS, BATCH, CLASSES = 40, 8, 3


def write_rows(path: str) -> None:
    random = np.random.RandomState(5)
    numbers = random.uniform(-1, 1, (ROWS, 4))
    classes = np.argmax(numbers[:, :CLASSES] + 0.2 * numbers[:, 3:], axis=1)
    with open(path, "w") as file:
        for row, kind in zip(numbers, classes):  # noqa: B905 (TensorFlow 1.15's Python is 3.7)
            file.write(",".join(f"{each:.4f}" for each in row) + f",{kind}\n")


def build() -> Any:
    """Rows from a queue of files, batch normalisation, variables of both kinds, Adam at a falling rate."""
    tf1.set_random_seed(11)
    names = tf1.train.string_input_producer(["rows.csv"], shuffle=False)
    _, line = tf1.TextLineReader().read(names)
    fields = tf1.decode_csv(line, [[0.0]] * 4 + [[0]])
    x, kinds = tf1.train.batch([tf.stack(fields[:4]), fields[4]], BATCH, num_threads=1)
    step = tf1.train.get_or_create_global_step()
    hidden = tf1.layers.dense(x, 8, name="hidden")
    hidden = tf.nn.relu(tf1.layers.batch_normalization(hidden, training=True, momentum=0.9))
    w = tf1.get_variable("w", [8, CLASSES], use_resource=True)
    scores = tf.matmul(hidden, w)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=kinds, logits=scores)
    loss = tf.add(tf.reduce_mean(losses), 1e-3 * tf.nn.l2_loss(w), name="loss")
    rate = tf1.train.exponential_decay(0.02, step, 30, 0.8, staircase=True)
    updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(updates):
        train = tf1.train.AdamOptimizer(rate).minimize(loss, step)
    averages = tf1.train.ExponentialMovingAverage(0.95, step)
    with tf.control_dependencies([train]):
        train = tf.group(averages.apply([w]), name="train")
    tf1.add_to_collection("train_op", train)
    tf1.global_variables_initializer()
    return tf1.train.Saver()


def main(folder: str, steps: int) -> None:
    os.chdir(folder)
    if not os.path.exists("rows.csv"):
        write_rows("rows.csv")
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        latest = tf1.train.latest_checkpoint(".")
        if latest is None:
            saver = build()
            session.run(graph.get_operation_by_name("init"))
        else:
            saver = tf1.train.import_meta_graph(latest + ".meta")
            saver.restore(session, latest)
        stop = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, stop)
        loss, train = graph.get_tensor_by_name("loss:0"), graph.get_operation_by_name("train")
        losses = [float(session.run([loss, train])[0]) for _ in range(steps)]
        saver.save(session, "./model.ckpt", global_step=tf1.train.get_global_step())
        stop.request_stop()
        stop.join(threads)
    print(json.dumps(losses))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    main(sys.argv[1], int(sys.argv[2]))
