"""The steps of `roads.py` in TensorFlow 2: `Session.run` with a list, and a SavedModel's signature.

    PYTHON tests/benchmarks/roads_tensorflow.py FOLDER SAVED_MODEL

Prints {road: microseconds a step} as JSON. Uses nothing of this project.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf


def microseconds(step: Callable[[], Any]) -> float:
    """Return the microseconds of a call: the least of five parts of 50 ms."""
    for _ in range(60):
        step()
    found = []
    for _ in range(5):
        begun, count = perf_counter(), 0
        while (now := perf_counter()) - begun < 0.05:
            step()
            count += 1
        found.append((now - begun) / count)
    return min(found) * 1e6


def of_session(folder: str, name: str, asked: dict[str, Any]) -> float:
    """Time `Session.run` of a graph that is written in the folder."""
    definition = tf.compat.v1.GraphDef()
    with open(os.path.join(folder, name + ".pb"), "rb") as file:
        definition.ParseFromString(file.read())
    feeds = dict(np.load(os.path.join(folder, name + ".npz")))
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            if asked["setup"]:
                session.run(asked["setup"])
            wanted = asked["fetches"] + asked["targets"]
            return microseconds(lambda: session.run(wanted, feeds))


def main(folder: str, saved_model: str) -> None:
    with open(os.path.join(folder, "roads.json"), encoding="utf-8") as file:
        roads = json.load(file)
    found = {}
    for name, asked in roads.items():
        if name == "model_call":
            model = tf.saved_model.load(saved_model)
            signature = model.signatures["serving_default"]
            (picture,) = np.load(os.path.join(folder, name + ".npz")).values()
            picture = tf.constant(picture)
            found[name] = microseconds(partial(signature, image=picture))
        else:
            found[name] = of_session(folder, name, asked)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
