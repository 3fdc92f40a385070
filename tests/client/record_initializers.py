"""Records what TensorFlow 1.15's initializers draw with seeds, into initializers_of_tensorflow.json.

python -m tests.client.record_initializers        # with the Python of a TensorFlow 1.15
"""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

SHAPES: dict[str, list[int]] = {"orthogonal": [3, 2]}


def initializers(seed: int | None) -> dict[str, Any]:
    init = tf.compat.v1.initializers
    return {
        "uniform": init.random_uniform(-1.0, 3.0, seed=seed),
        "normal": init.random_normal(2.0, 3.0, seed=seed),
        "truncated_normal": init.truncated_normal(2.0, 3.0, seed=seed),
        "glorot_uniform": init.glorot_uniform(seed=seed),
        "glorot_normal": init.glorot_normal(seed=seed),
        "he_uniform": init.he_uniform(seed=seed),
        "he_normal": init.he_normal(seed=seed),
        "lecun_uniform": init.lecun_uniform(seed=seed),
        "lecun_normal": init.lecun_normal(seed=seed),
        "variance_scaling": init.variance_scaling(2.0, "fan_out", "untruncated_normal", seed=seed),
        "orthogonal": init.orthogonal(1.5, seed=seed),
        "zeros": init.zeros(),
        "ones": init.ones(),
        "constant": init.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        "identity": init.identity(1.5),
        "integers": init.random_uniform(2, 50, seed=seed, dtype=tf.int32),
    }


def main() -> None:
    found: dict[str, Any] = {}
    for graph_seed in (None, 17):
        for name, initializer in initializers(5).items():
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                tf.compat.v1.set_random_seed(graph_seed)
                dtype = tf.int32 if name == "integers" else tf.float32
                value = initializer(SHAPES.get(name, [2, 3]), dtype)
                found[f"{name} {graph_seed}"] = session.run(value).tolist()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "initializers_of_tensorflow.json")
    with open(path, "w") as file:
        file.write(
            "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n"
        )


if __name__ == "__main__":
    main()
