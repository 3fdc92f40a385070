"""Records which seeds TensorFlow 1.15 gives to random nodes: run by its Python.

    record_seeds.py tests/graphs/functions/seeds_of_tensorflow.json

The file has [[graph's seed or null, [[node, seed, seed2], ...]], ...], nodes in the order of construction.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import tensorflow as tf

SEEDS = (None, 0, 1234, 2147483647, -7)


def build() -> None:
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    tf.random_uniform([2, 3], name="uniform")
    tf.random_normal([2, 3], name="normal")
    tf.truncated_normal([2], seed=7, name="truncated")
    tf.random_shuffle(x, name="shuffle")
    tf.random_uniform([2], maxval=9, dtype=tf.int32, name="integers")
    tf.multinomial(x, 3, name="multinomial")
    tf.random_gamma([2], 1.5, name="gamma")
    tf.random_gamma([2], [1.5, 2.0], [[1.0], [2.0]], seed=0, name="gammas")
    tf.random_poisson(2.0, [2], name="poisson")
    tf.random_normal([2, 3], seed=-1, name="negative")
    tf.random_uniform([2, 3], seed=2147483647, name="largest")
    tf.get_variable("w", [3, 2], use_resource=True)
    tf.get_variable("v", [3, 2], initializer=tf.random_normal_initializer(seed=3), use_resource=True)
    tf.get_variable("t", [3, 2], initializer=tf.truncated_normal_initializer(), use_resource=True)
    tf.get_variable("o", [3, 3], initializer=tf.orthogonal_initializer(), use_resource=True)


def seeds(seed: int | None) -> list[list[Any]]:
    with tf.Graph().as_default() as graph:
        if seed is not None:
            tf.set_random_seed(seed)
        build()
        operations = [op for op in graph.get_operations() if "seed2" in op.node_def.attr]
        return [[op.name, op.get_attr("seed"), op.get_attr("seed2")] for op in operations]


if __name__ == "__main__":
    tf = tf.compat.v1
    tf.disable_v2_behavior()
    text = ",\n".join(json.dumps([seed, seeds(seed)]) for seed in SEEDS)
    pathlib.Path(sys.argv[1]).write_text(f"[{text}]\n")
