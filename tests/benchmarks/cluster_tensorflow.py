"""One task of a cluster that `bench_cluster.py` measures, TensorFlow 1.15's: see `cluster_peer.py`.

Needs a Python that has TensorFlow 1.15, and nothing of ours.
"""

import json
import os
import sys
import time
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow.compat.v1 as tf


def say(document: Any) -> None:
    print(json.dumps(document), flush=True)


def main(arguments: Any) -> None:
    """Serve until standard input ends."""
    config = tf.ConfigProto(device_count={"GPU": 0})
    server = tf.distribute.Server(
        tf.train.ClusterSpec(arguments["jobs"]),
        job_name=arguments["job"],
        task_index=arguments["task"],
        config=config,
    )
    say({"ready": arguments["job"]})
    session = None
    for line in sys.stdin:
        order = json.loads(line)
        if "graph" in order:
            graph_def = tf.GraphDef()
            with open(order["graph"], "rb") as file:
                graph_def.ParseFromString(file.read())
            graph = tf.Graph()
            with graph.as_default():
                tf.import_graph_def(graph_def, name="")
            options = tf.ConfigProto()
            options.graph_options.rewrite_options.disable_meta_optimizer = True
            session = tf.Session(server.target, graph=graph, config=options)
            if order["init"]:
                session.run([graph.get_operation_by_name(name) for name in order["init"]])
            say({"open": True})
            continue
        assert session is not None, "a session is opened first"
        step = session.make_callable(session.graph.get_operation_by_name(order["run"]))
        seconds = []
        for _ in range(order["steps"]):
            begun = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begun)
        say({"seconds": seconds})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
