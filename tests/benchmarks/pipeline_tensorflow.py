"""Drains a pipeline with TensorFlow, 1.15 or 2: the counterpart of `pipeline_flowengine.py`.

Runs under another Python, so it uses nothing of this project and no syntax newer than Python 3.7.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any


def drain(tf: Any, folder: str) -> Any:
    meta = tf.MetaGraphDef()
    with open(os.path.join(folder, "pipeline.meta"), "rb") as file:
        meta.ParseFromString(file.read())
    fetches = list(meta.collection_def["fetches"].node_list.value)
    initializers = list(meta.collection_def["initializers"].node_list.value)
    records = 0
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta.graph_def, name="")
        for data in meta.collection_def["queue_runners"].bytes_list.value:
            proto = tf.train.QueueRunner.from_proto
            definition = importlib.import_module(
                "tensorflow.core.protobuf.queue_runner_pb2"
            ).QueueRunnerDef.FromString(data)
            tf.train.add_queue_runner(proto(definition))
        with tf.Session(graph=graph) as session:
            session.run(initializers)
            step = session.make_callable(fetches)
            coordinator = tf.train.Coordinator()
            started, used = time.perf_counter(), time.process_time()
            threads = tf.train.start_queue_runners(session, coordinator)
            try:
                while True:
                    records += len(step()[0])
            except tf.errors.OutOfRangeError:
                pass
            seconds, processor = time.perf_counter() - started, time.process_time() - used
            coordinator.request_stop()
            coordinator.join(threads)
    return {"records": records, "seconds": seconds, "processor": processor}


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module: Any = importlib.import_module("tensorflow")
    tf = getattr(getattr(module, "compat", module), "v1", module)
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    for line in sys.stdin:
        asked = json.loads(line)
        answer: Any = None
        if asked["what"] == "version":
            answer = "TensorFlow " + module.__version__
        elif asked["what"] == "drain":
            answer = drain(tf, asked["folder"])
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
