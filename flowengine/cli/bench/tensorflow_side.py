"""The same steps in TensorFlow: a program for the Python that has it, which imports nothing of FlowEngine.

    PYTHON tensorflow_side.py JOB.json ANSWER.json

It runs under Python 3.6 and later and TensorFlow 1.13 and later, so its syntax is that of Python 3.6.
"""

import importlib
import json
import os
import sys
import threading
import time
from typing import Any


def main(job_path: str, answer_path: str) -> None:
    """Run the job and write the times, and the values of a step of each batch size."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np

    with open(job_path) as file:
        job = json.load(file)
    tf = importlib.import_module("tensorflow")
    v1 = tf.compat.v1
    v1.logging.set_verbosity(v1.logging.ERROR)
    graph = tf.Graph()
    points = []
    with graph.as_default(), v1.Session(graph=graph) as session:
        if job["saved_model"]:
            v1.saved_model.load(session, job["tags"], job["saved_model"])
        else:
            definition = v1.GraphDef()
            with open(job["graph"], "rb") as file_of_graph:
                definition.ParseFromString(file_of_graph.read())
            tf.import_graph_def(definition, name="")
        for name in job["inits"]:
            session.run(graph.get_operation_by_name(name))
        known = set()
        for point in job["points"]:
            with np.load(point["feeds"]) as held:
                feeds = {name: held[str(index)] for index, name in enumerate(point["names"])}
            if point["values"] not in known:
                known.add(point["values"])
                values = session.run(job["fetches"], feeds)
                np.savez(point["values"], *[_storable(np, value) for value in values])
            warm_up = job["seconds"] * job["warm_up"]
            _steps(session, job["fetches"], feeds, point["concurrency"], warm_up, job["warm_up_steps"])
            latencies, seconds = _steps(
                session, job["fetches"], feeds, point["concurrency"], job["seconds"], 1
            )
            points.append({"latencies_ms": latencies, "seconds": seconds})
    with open(answer_path, "w") as file:
        json.dump({"version": tf.__version__, "points": points}, file)


def _storable(np: Any, value: Any) -> Any:
    """Turn strings into bytes of fixed width and types of TensorFlow's own into float32."""
    array = np.asarray(value)
    if array.dtype == object:
        return array.astype(np.bytes_)
    return array if array.dtype.kind in "biufcSU" else array.astype(np.float32)


def _steps(session: Any, fetches: Any, feeds: Any, concurrency: int, seconds: float, least: int) -> Any:
    """Run steps in so many threads for some seconds; each thread runs at least so many."""
    latencies = []
    faults = []
    begun = time.perf_counter()

    def run() -> None:
        try:
            done = 0
            while done < least or time.perf_counter() - begun < seconds:
                start = time.perf_counter()
                session.run(fetches, feeds)
                latencies.append((time.perf_counter() - start) * 1e3)
                done += 1
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=run) for _ in range(concurrency - 1)]
    for thread in threads:
        thread.start()
    run()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return latencies, time.perf_counter() - begun


if __name__ == "__main__":
    main(*sys.argv[1:])
