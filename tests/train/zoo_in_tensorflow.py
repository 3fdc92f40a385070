"""The TensorFlow side of `test_saver_tensorflow.py`; runs on TensorFlow 1.15 and 2.x.

    python zoo_in_tensorflow.py ZOO FOLDER CASE...

For each case: imports its graph, makes a tf.train.Saver for its variables, restores `FOLDER/CASE/ours` and
keeps what the variables then hold in `ours.json`; initializes and trains a step, saves `theirs`, keeps what
was saved in `theirs.json` and the MetaGraphDef in `theirs.meta`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.logging.set_verbosity(tf1.logging.ERROR)


def variables_of(graph: Any, names: Sequence[str]) -> dict[str, Any]:
    """{name: what tf.train.Saver takes for it} of variable nodes."""
    found = {}
    for name in names:
        op = graph.get_operation_by_name(name)
        if op.type == "VarHandleOp":
            reads = [c for c in op.outputs[0].consumers() if c.type == "ReadVariableOp"]
            found[name] = reads[0].outputs[0]
        else:
            found[name] = op.outputs[0]
    return found


def kept(session: Any, variables: dict[str, Any]) -> dict[str, Any]:
    """{name: [dtype, shape, elements as text]}"""
    values = session.run(variables)
    out = {}
    for name, value in values.items():
        value = np.asarray(value)
        if value.dtype == object:
            text: Any = [element.hex() for element in value.reshape(-1)]
        else:
            text = value.tobytes().hex()
        out[name] = [variables[name].dtype.base_dtype.name, list(value.shape), text]
    return out


def run(session: Any, folder: str, number: int, runs: list[Any]) -> None:
    """One recorded run of the case."""
    feeds = {name: np.load(os.path.join(folder, v["npy"])) for name, v in runs[number]["feeds"].items()}
    session.run(
        [runs[number]["fetches"], [session.graph.get_operation_by_name(t) for t in runs[number]["targets"]]],
        feeds,
    )


def cross(zoo: str, folder: str, case: str) -> None:
    source = os.path.join(zoo, case)
    target = os.path.join(folder, case)
    with open(os.path.join(source, "case.json")) as file:
        description = json.load(file)
    with open(os.path.join(target, "names.json")) as file:
        names = json.load(file)
    with open(os.path.join(source, description["graph"]), "rb") as file:
        graph_def = tf1.GraphDef.FromString(file.read())
    with tf.Graph().as_default() as graph:
        tf1.import_graph_def(graph_def, name="")
        variables = variables_of(graph, names)
        with tf1.device("/cpu:0"):
            saver = tf1.train.Saver(variables, name="cross")
        saver.export_meta_graph(os.path.join(target, "theirs.meta"))
        with tf1.Session() as session:
            saver.restore(session, os.path.join(target, "ours"))
            with open(os.path.join(target, "ours.json"), "w") as file:
                json.dump(kept(session, variables), file)
        with tf1.Session() as session:
            for number in description["timing"]["setup"]:
                run(session, source, number, description["runs"])
            run(session, source, description["timing"]["run"], description["runs"])
            saver.save(session, os.path.join(target, "theirs"), write_meta_graph=False)
            with open(os.path.join(target, "theirs.json"), "w") as file:
                json.dump(kept(session, variables), file)


if __name__ == "__main__":
    for each in sys.argv[3:]:
        cross(sys.argv[1], sys.argv[2], each)
        print(each)
