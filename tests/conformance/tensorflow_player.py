"""Plays a recorded case in TensorFlow on another graph than its own: what is left of it once written by us.

    PYTHON-WITH-TENSORFLOW tests/conformance/tensorflow_player.py CASE-FOLDER GRAPH

Prints a JSON list with one list a run: for each fetch null, or what is wrong with it. Uses nothing of this
project and no syntax newer than Python 3.7, since TensorFlow 1.15 needs that.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import sys
from typing import Any

import numpy as np


def read(folder: str, value: Any) -> Any:
    if "bytes_b64" in value:
        strings = np.empty(len(value["bytes_b64"]), dtype=object)
        strings[:] = [base64.b64decode(s) for s in value["bytes_b64"]]
        return strings.reshape(value["shape"])
    return np.load(os.path.join(folder, value["npy"]))


def wrong(entry: Any, folder: str, got: Any) -> Any:
    """None, or how a value differs from what was recorded."""
    want = read(folder, entry["value"])
    got = np.asarray(got, dtype=object) if isinstance(got, bytes) else np.asarray(got)
    if want.shape != got.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if entry["compare"] == "shape":
        return None
    if entry["compare"] == "exact":
        return None if np.array_equal(want, got) else "not equal"
    distance = np.abs(got.astype(np.float64) - want.astype(np.float64))
    bound = entry["atol"] + entry["rtol"] * np.abs(want.astype(np.float64))
    return None if (distance <= bound).all() else f"off by {distance.max():g}"


def main() -> None:
    folder, path = sys.argv[1:]
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module: Any = importlib.import_module("tensorflow")
    tf = getattr(getattr(module, "compat", module), "v1", module)
    definition = tf.GraphDef()
    with open(path, "rb") as file:
        definition.ParseFromString(file.read())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as text:
        case = json.load(text)
    answers = []
    with tf.Session(graph=graph) as session:
        for run in case["runs"]:
            feeds = {name: read(folder, value) for name, value in run["feeds"].items()}
            wanted = run["fetches"] + run.get("targets", [])
            values = session.run(wanted, feeds)[: len(run["fetches"])]
            pairs = [(run["expect"][i], values[i]) for i in range(len(values))]
            answers.append([wrong(entry, folder, value) for entry, value in pairs])
    out.write(json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
