"""Builds Inception-v3 as a training graph with TensorFlow 1.15, as often as `building.py` asks.

    PYTHON tests/benchmarks/building_peer.py     # a line on its input, a line of JSON as the answer

Uses nothing of this project but `make_networks.py` beside it, and no syntax newer than Python 3.7.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any


class Layers:
    """Builders that `make_networks.inception_v3` calls: TensorFlow's own layers."""

    def __init__(self, tf: Any, batch: int) -> None:
        self.tf = tf
        self.images = tf.placeholder(tf.float32, [batch, 299, 299, 3], name="images")

    def conv(
        self, x: Any, outputs: int, window: Any, stride: int = 1, padding: str = "SAME", norm: bool = False
    ) -> Any:
        layers = self.tf.layers
        y = layers.conv2d(x, outputs, window, stride, padding, use_bias=not norm)
        return self.tf.nn.relu(layers.batch_normalization(y, training=True) if norm else y)

    def pool(self, x: Any, window: int = 2, stride: int = 2, padding: str = "VALID") -> Any:
        return self.tf.layers.max_pooling2d(x, window, stride, padding)

    def mean(self, x: Any, window: int, stride: int = 1, padding: str = "VALID") -> Any:
        return self.tf.layers.average_pooling2d(x, window, stride, padding)

    def dense(self, x: Any, outputs: int, relu: bool = True) -> Any:
        return self.tf.layers.dense(self.tf.layers.flatten(x), outputs, self.tf.nn.relu if relu else None)

    def join(self, *parts: Any) -> Any:
        return self.tf.concat(list(parts), 3)


def build(tf: Any, network: Any, batch: int) -> dict[str, Any]:
    start = time.process_time()
    with tf.Graph().as_default() as graph:
        logits = network(Layers(tf, batch))
        labels = tf.placeholder(tf.int32, [batch], name="labels")
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            tf.train.RMSPropOptimizer(0.045, 0.9, 0.9, 1.0).minimize(loss)
        seconds = time.process_time() - start
        return {
            "seconds": seconds,
            "nodes": len(graph.get_operations()),
            "variables": [f"{each.op.name} {each.shape.as_list()}" for each in tf.global_variables()],
        }


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    tf: Any = importlib.import_module("tensorflow")
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    networks: Any = importlib.import_module("make_networks")
    for line in sys.stdin:
        print(json.dumps(build(tf.compat.v1, networks.inception_v3, int(line))), flush=True)


if __name__ == "__main__":
    main()
