"""Runs graphs of one node in TensorFlow, for `against_tensorflow`.

    PYTHON-WITH-TENSORFLOW tests/conformance/tensorflow_nodes.py FOLDER FIRST

Reads `cases.json` in the folder, a list of cases with the name of a graph's file, nodes that set up, fetches
and nodes to run. Appends a line to `answers.jsonl` for each case from the number FIRST on, with the values in
a file of their own beside it. If TensorFlow ends the process, the line of that case is missing. Uses nothing
of this project and no syntax newer than Python 3.7, since TensorFlow 1.15 needs that.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import re
import sys
from typing import Any

import numpy as np

#: Quantised types and what NumPy holds them as.
PLAIN = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}


def stored(value: Any, folder: str, name: str) -> dict[str, Any]:
    """A value in a file, or in the answer itself where it is of strings."""
    if isinstance(value, bytes):
        value = np.array(value, dtype=object)
    array = np.asarray(value)
    dtype = array.dtype.names[0] if array.dtype.names else array.dtype.name
    if array.dtype.kind in "OSU":
        texts = [v if isinstance(v, bytes) else str(v).encode() for v in array.ravel().tolist()]
        return {"bytes": [base64.b64encode(t).decode() for t in texts], "shape": list(array.shape)}
    if array.dtype.names:
        array = array.view(array.dtype[0])
    if dtype == "bfloat16":
        array = array.astype(np.float32)
    if dtype in PLAIN:
        array = array.astype(PLAIN[dtype])
    np.save(os.path.join(folder, name), array)
    return {"npy": name, "dtype": dtype}


def fitted(tf: Any, definition: Any, ops: Any) -> Any:
    """The graph on the CPU, without attributes that this TensorFlow does not know yet."""
    for node in definition.node:
        # Elsewhere TensorFlow 1.15 would compile what no kernel for the CPU takes.
        node.device = "/device:CPU:0"
        known = ops(node.op)
        if known is not None:
            names = {attr.name for attr in known.attr}
            for name in [name for name in node.attr if name not in names and not name.startswith("_")]:
                del node.attr[name]
    return definition


def imported(tf: Any, definition: Any) -> Any:
    """The graph; that of an older producer where an op has been taken back since."""
    for _ in range(2):
        try:
            with tf.Graph().as_default() as graph:
                tf.import_graph_def(definition, name="")
            return graph
        except Exception as error:
            removed = re.search(r"removed in version (\d+)", str(error))
            if not removed:
                raise
            definition.versions.producer = int(removed.group(1)) - 1
    raise NotImplementedError("removed in every version")


def answer(tf: Any, case: Any, folder: str, number: int, ops: Any) -> dict[str, Any]:
    definition = tf.GraphDef()
    with open(os.path.join(os.path.dirname(folder), case["graph"]), "rb") as file:
        definition.ParseFromString(file.read())
    try:
        graph = imported(tf, fitted(tf, definition, ops))
    except Exception as error:
        return {"error": "import", "message": str(error)[:300]}
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    config.operation_timeout_in_ms = 20000
    values: list[Any] = []
    try:
        with tf.Session(graph=graph, config=config) as session:
            for names in (case["setup"], case["fetches"] + case["targets"], case["variables"]):
                if names:
                    # What is no tensor comes back as None.
                    got = session.run(names)
                    values += [got[i] for i in range(len(names)) if ":" in names[i]]
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)[:300]}
    return {"values": [stored(v, folder, f"out{number}_{i}.npy") for i, v in enumerate(values)]}


def main() -> None:
    folder, first = sys.argv[1], int(sys.argv[2])
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    module: Any = importlib.import_module("tensorflow")
    tf = getattr(getattr(module, "compat", module), "v1", module)
    registry: Any = importlib.import_module("tensorflow.python.framework.op_def_registry")
    if hasattr(registry, "get"):
        ops = registry.get
    else:
        importlib.import_module("tensorflow.python.framework.ops")
        ops = registry.get_registered_ops().get
    with open(os.path.join(folder, "cases.json"), encoding="utf-8") as text:
        cases = json.load(text)
    with open(os.path.join(folder, "answers.jsonl"), "a", encoding="utf-8") as out:
        for number in range(first, len(cases)):
            try:
                found = answer(tf, cases[number], folder, number, ops)
            except Exception as error:
                found = {"error": "player", "message": str(error)[:300]}
            found["case"] = number
            out.write(json.dumps(found) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
