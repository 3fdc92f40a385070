"""MetaGraphs with branches and loops in TensorFlow 1.15: run by its Python.

contexts_in_tensorflow.py slope graph.meta     # prints y and its gradient at x, as JSON
contexts_in_tensorflow.py record folder        # writes a graph of its own and what it gives
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import numpy as np
import tensorflow as tf

FEEDS = {"x:0": np.array([[1, 2, 3], [-1, 0.5, 0.25]]), "n:0": np.int32(4)}


def slope() -> dict[str, Any]:
    y, x = (tf.compat.v1.get_default_graph().get_tensor_by_name(name) for name in ("y:0", "x:0"))
    (found,) = tf.gradients(y, x)
    with tf.compat.v1.Session() as session:
        value, gradient = session.run([y, found], FEEDS)
    return {"y": float(value), "slope": gradient.tolist()}


def build() -> None:
    x = tf.compat.v1.placeholder(tf.float64, [None, 3], name="x")
    n = tf.compat.v1.placeholder(tf.int32, [], name="n")

    def body(i: Any, v: Any) -> Any:
        def inner(j: Any, w: Any) -> Any:
            return j + 1, tf.cond(tf.reduce_sum(w) > 5.0, lambda: w * 0.5, lambda: w + tf.reduce_mean(x))

        deeper = tf.while_loop(lambda j, w: j < 2, inner, (0, v))[1]
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: deeper * 1.5, lambda: v - x * 0.1)

    parts = [
        tf.while_loop(lambda i, v: i < n, body, (0, x), maximum_iterations=10)[1],
        tf.map_fn(lambda row: tf.reduce_sum(tf.exp(row * 0.1)) * row[::-1], x),
        tf.case([(n > 10, lambda: x * 2.0), (n > 3, lambda: x * x)], lambda: x + 1.0),
    ]
    tf.add_n([tf.reduce_sum(each * each) for each in parts], name="y")


if __name__ == "__main__":
    tf.compat.v1.disable_v2_behavior()
    if sys.argv[1] == "slope":
        tf.compat.v1.train.import_meta_graph(sys.argv[2])
        print(json.dumps(slope()))
    else:
        build()
        meta = tf.compat.v1.train.export_meta_graph(clear_extraneous_savers=True)
        meta.meta_info_def.ClearField("stripped_op_list")
        folder = pathlib.Path(sys.argv[2])
        folder.joinpath("contexts_of_tensorflow.meta").write_bytes(meta.SerializeToString(deterministic=True))
        folder.joinpath("contexts_of_tensorflow.json").write_text(json.dumps(slope()) + "\n")
