"""The same steps in TensorFlow or ONNX Runtime: a program for the Python that has it.

    PYTHON other_side.py JOB.json ANSWER.json

It imports nothing of FlowEngine. It runs under Python 3.6 and later and TensorFlow 1.13 and later, so its
syntax is that of Python 3.6.
"""

import importlib
import json
import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import Any


def main(job_path: str, answer_path: str) -> None:
    """Run the job and write the times, and the values of a step of each batch size."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np

    with open(job_path) as file:
        job = json.load(file)
    points = []
    known = set()
    with (_onnxruntime if job["onnx"] else _tensorflow)(job) as (version, run):
        for point in job["points"]:
            with np.load(point["feeds"]) as held:
                feeds = {name: held[str(index)] for index, name in enumerate(point["names"])}
            if point["values"] not in known:
                known.add(point["values"])
                np.savez(point["values"], *[_storable(np, value) for value in run(feeds)])
            warm_up = job["seconds"] * job["warm_up"]
            _steps(run, feeds, point["concurrency"], warm_up, job["warm_up_steps"])
            latencies, seconds = _steps(run, feeds, point["concurrency"], job["seconds"], 1)
            points.append({"latencies_ms": latencies, "seconds": seconds})
    with open(answer_path, "w") as file:
        json.dump({"version": version, "points": points}, file)


@contextmanager
def _tensorflow(job: Any) -> Any:
    """Open a session; give TensorFlow's version and a function of feeds that runs a step."""
    tf = importlib.import_module("tensorflow")
    v1 = tf.compat.v1
    v1.logging.set_verbosity(v1.logging.ERROR)
    graph = tf.Graph()
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
        yield tf.__version__, lambda feeds: session.run(job["fetches"], feeds)


@contextmanager
def _onnxruntime(job: Any) -> Any:
    """Open the converted model; give ONNX Runtime's version and a function of feeds that runs a step."""
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(job["onnx"], providers=["CPUExecutionProvider"])
    inputs = [each.name for each in session.get_inputs()]
    outputs = [each.name for each in session.get_outputs()]
    fed = {tensor: _named(inputs, names, job["onnx"], "input") for tensor, names in job["inputs"].items()}
    wanted = [_named(outputs, names, job["onnx"], "output") for names in job["outputs"]]

    def run(feeds: Any) -> Any:
        return session.run(wanted, {fed[tensor]: value for tensor, value in feeds.items()})

    yield runtime.__version__, run


def _named(found: Any, names: Any, path: str, what: str) -> Any:
    """Choose the input or output that a converter has made of a tensor: by name, or the only one."""
    for name in names:
        if name in found:
            return name
    if len(found) == 1:
        return found[0]
    raise ValueError("{} has no {} {}: it has {}".format(path, what, " or ".join(names), ", ".join(found)))


def _storable(np: Any, value: Any) -> Any:
    """Turn strings into bytes of fixed width and types of TensorFlow's own into float32."""
    array = np.asarray(value)
    if array.dtype == object:
        return array.astype(np.bytes_)
    return array if array.dtype.kind in "biufcSU" else array.astype(np.float32)


def _steps(step: Any, feeds: Any, concurrency: int, seconds: float, least: int) -> Any:
    """Run steps in so many threads for some seconds; each thread runs at least so many."""
    latencies = []
    faults = []
    begun = time.perf_counter()

    def run() -> None:
        try:
            done = 0
            while done < least or time.perf_counter() - begun < seconds:
                start = time.perf_counter()
                step(feeds)
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
