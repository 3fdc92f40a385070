"""Makes Inception-v3 as a training graph, with TensorFlow 1.15, and says what its gradients cost there.

    PYTHON tests/benchmarks/make_gradients.py FOLDER BATCH ROUNDS

FOLDER/forward.pb is the graph up to the loss; FOLDER/there.pb the same with TensorFlow's gradients and a step
of gradient descent, `train`. FOLDER/there.json says the CPU seconds of `tf.gradients` in each round, how many
nodes it added, and the names of the variables and of their initializer.

Uses nothing of this project but `make_networks.py` beside it, and no syntax newer than Python 3.7.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np


def build(tf: Any, batch: int) -> Any:
    networks: Any = importlib.import_module("make_networks")
    logits = networks.inception_v3(networks.Net(tf, batch, 299))
    labels = tf.constant(np.arange(batch) * 37 % networks.CLASSES, tf.int32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses, name="loss")


def write(graph: Any, path: str) -> None:
    with open(path, "wb") as file:
        file.write(graph.as_graph_def().SerializeToString())


def differentiated(tf: Any, folder: str, batch: int) -> tuple[float, dict[str, Any]]:
    """Both graphs are written; the CPU seconds of the gradients, and what is told of them."""
    with tf.Graph().as_default() as graph:
        loss = build(tf, batch)
        init = tf.global_variables_initializer()
        write(graph, os.path.join(folder, "forward.pb"))
        variables = tf.trainable_variables()
        before = len(graph.get_operations())
        start = time.process_time()
        found = tf.gradients(loss, variables)
        seconds = time.process_time() - start
        added = len(graph.get_operations()) - before
        steps = tf.train.GradientDescentOptimizer(1e-7)
        steps.apply_gradients([(found[i], variables[i]) for i in range(len(found))], name="train")
        write(graph, os.path.join(folder, "there.pb"))
    names = [variable.op.name for variable in variables]
    return seconds, {"added": added, "variables": names, "setup": init.name}


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf: Any = importlib.import_module("tensorflow")
    tf.logging.set_verbosity(tf.logging.ERROR)
    folder, batch, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    told: dict[str, Any] = {"seconds": []}
    for _ in range(rounds):
        seconds, rest = differentiated(tf, folder, batch)
        told["seconds"].append(seconds)
        told.update(rest)
    with open(os.path.join(folder, "there.json"), "w") as file:
        json.dump(told, file)


if __name__ == "__main__":
    main()
