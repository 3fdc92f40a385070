"""A training run with a queue, a loop and a branch: TensorFlow's side of `test_saver_tensorflow.py`.

    python queue_in_tensorflow.py FOLDER STEPS

Goes on from the latest checkpoint in FOLDER with its MetaGraphDef, begins with a graph of its own where there
is none, and trains so many steps from what its queue runner gives. Prints as JSON the losses, a derivative
that is built then, from the contexts that the graph lists, and how many runners and contexts it lists.
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.disable_control_flow_v2()
tf1.logging.set_verbosity(tf1.logging.ERROR)


def build() -> None:
    number = tf1.train.range_input_producer(10, shuffle=False, capacity=4).dequeue()
    w = tf1.get_variable("w", [], initializer=tf1.constant_initializer(3.0), use_resource=False)
    x = tf.cast(number, tf.float32) * 0.01
    start = [tf.constant(0), tf.constant(1.0)]
    _, looped = tf1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * w * 0.5 + x), start)
    y = tf1.cond(w > 1.0, lambda: looped * w, lambda: looped - w)
    loss = tf.square(y - 0.5, name="loss")
    step = tf1.train.get_or_create_global_step()
    tf1.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step, name="train")
    tf.group(tf1.global_variables_initializer(), name="init")


def main(folder: str, steps: int) -> None:
    latest = tf1.train.latest_checkpoint(folder)
    if latest is None:
        build()
        saver = tf1.train.Saver()
    else:
        saver = tf1.train.import_meta_graph(latest + ".meta")
    graph = tf1.get_default_graph()
    with tf1.Session() as session:
        if latest is None:
            session.run("init")
        else:
            saver.restore(session, latest)
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        losses = [float(session.run(["loss:0", "train"])[0]) for _ in range(steps)]
        slope = tf1.gradients(graph.get_tensor_by_name("loss:0"), graph.get_tensor_by_name("w:0"))[0]
        found = [losses, float(session.run(slope))]
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=5, ignore_live_threads=True)
        saver.save(session, os.path.join(folder, "model"), global_step=tf1.train.get_global_step(graph))
    lists = ("queue_runners", "while_context", "cond_context")
    print(json.dumps([*found, [len(tf1.get_collection(each)) for each in lists]]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
