"""The answers of TensorFlow to loops with one edge led elsewhere: writes `rewirings.json`.

    python tests/runtime/rewire_in_tensorflow.py < graph-and-rewirings.json > tests/runtime/rewirings.json

The input is what `test_rewirings.py` prints when it is run as a program, so that one process needs TensorFlow
alone and the other FlowEngine alone.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.logging.set_verbosity(tf1.logging.ERROR)


def answers(graph_def: Any, fetches: list[str]) -> dict[str, Any]:
    """{fetch: its value, or the name of the error}."""
    graph = tf1.Graph()
    try:
        with graph.as_default():
            tf1.import_graph_def(graph_def, name="")
    except Exception as error:
        return dict.fromkeys(fetches, type(error).__name__)
    found: dict[str, Any] = {}
    # Whatever is not rewired stays as it is: no grappler.
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    for fetch in fetches:
        options = tf1.RunOptions(timeout_in_ms=1500)
        with tf1.Session(graph=graph, config=config) as session:
            try:
                found[fetch] = float(session.run(fetch, options=options))
            except Exception as error:
                found[fetch] = type(error).__name__
    return found


def answers_of_a_child(graph_def: Any, fetches: list[str]) -> dict[str, Any]:
    """The same, each fetch in a process of its own: some of these graphs end TensorFlow's, or hang it."""
    found: dict[str, Any] = {}
    for fetch in fetches:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(20)
            os.write(writer, json.dumps(answers(graph_def, [fetch])).encode())
            os._exit(0)
        os.close(writer)
        with open(reader) as file:
            said = file.read()
        ended = os.waitpid(child, 0)[1]
        found.update(json.loads(said) if said else {fetch: f"signal {ended & 127}"})
    return found


def main() -> None:
    given = json.load(sys.stdin)
    cases = []
    for node, index, source in given["rewirings"]:
        graph_def = tf1.GraphDef.FromString(base64.b64decode(given["graph"]))
        next(n for n in graph_def.node if n.name == node).input[index] = source
        cases.append([node, index, source, answers_of_a_child(graph_def, given["fetches"])])
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")


if __name__ == "__main__":
    main()
