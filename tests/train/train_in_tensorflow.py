"""A training run that may be continued: TensorFlow's side of `test_saver_tensorflow.py`.

    python train_in_tensorflow.py FOLDER STEPS

Goes on from the latest checkpoint in FOLDER with its MetaGraphDef, begins with a graph of its own where
there is none, trains so many steps, saves, and prints the losses as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.logging.set_verbosity(tf1.logging.ERROR)


def build() -> Any:
    """Regression on numbers made from the step, with parameters of every kind and a slot for each.

    Every sum is of two numbers and the rates are powers of two: any order of computation gives the same bits.
    """
    step = tf1.train.get_or_create_global_step()
    numbers = tf1.mod(tf1.range(8, dtype=tf1.int64) * 13 + step * 7, 17)
    x = tf1.reshape(tf1.cast(numbers, tf1.float32) / 16.0, [2, 4])
    y = x * 0.6 - 0.3
    w = tf1.get_variable("w", [4], initializer=tf1.constant_initializer(0.1), use_resource=False)
    b = tf1.get_variable("b", [4], initializer=tf1.zeros_initializer(), use_resource=True)
    v = tf1.get_variable(
        "v",
        [4],
        initializer=tf1.constant_initializer(0.7),
        partitioner=tf1.fixed_size_partitioner(2),
        use_resource=False,
    )
    hidden = tf1.maximum(x * w + b, 0.0)
    errors = tf1.square(hidden * tf1.convert_to_tensor(v) - y)
    by_column = tf1.reshape(tf1.reduce_mean(errors, axis=0), [2, 2])
    loss = tf1.reduce_mean(tf1.reduce_mean(by_column, axis=0), axis=0, name="loss")
    optimizer = tf1.train.MomentumOptimizer(1.0, 0.5)
    optimizer.minimize(loss, global_step=step, name="train")
    tf1.global_variables_initializer()
    return tf1.train.Saver()


def main(folder: str, steps: int) -> None:
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        latest = tf1.train.latest_checkpoint(folder)
        if latest is None:
            saver = build()
            session.run(graph.get_operation_by_name("init"))
        else:
            saver = tf1.train.import_meta_graph(latest + ".meta")
            saver.restore(session, latest)
        loss, train = graph.get_tensor_by_name("loss:0"), graph.get_operation_by_name("train")
        losses = [float(session.run([loss, train])[0]) for _ in range(steps)]
        step = tf1.train.get_global_step()
        saver.save(session, os.path.join(folder, "model.ckpt"), global_step=step)
    print(json.dumps(losses))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    main(sys.argv[1], int(sys.argv[2]))
