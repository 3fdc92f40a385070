"""Times a workload in TensorFlow, 1.15 or 2: the counterpart of `engine_flowengine.py`.

Runs under another Python, so it uses nothing of this project and no syntax newer than Python 3.7.
See `engines.py` for what is said on stdin and stdout.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np


def read(value: Any, folder: str) -> Any:
    if "bytes_b64" in value:
        import base64

        strings = [base64.b64decode(s) for s in value["bytes_b64"]]
        return np.array(strings, dtype=object).reshape(value["shape"])
    return np.load(os.path.join(folder, value["npy"]))


class Prepared:
    """A session with the workload's graph, its setup done."""

    def __init__(self, tf: Any, folder: str) -> None:
        with open(os.path.join(folder, "workload.json"), encoding="utf-8") as file:
            work = json.load(file)
        os.chdir(folder)
        started = time.perf_counter()
        definition = tf.GraphDef()
        with open(work["graph"], "rb") as binary:
            definition.ParseFromString(binary.read())
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(definition, name="")
        self.loading = time.perf_counter() - started
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = not work["optimizer"]
        self.session = tf.Session(graph=graph, config=config)
        for run in work["setup"]:
            feeds = {name: read(value, folder) for name, value in run["feeds"].items()}
            self.session.run(run["fetches"] + run["targets"], feeds)
        run = work["run"]
        feeds = {name: read(value, folder) for name, value in run["feeds"].items()}
        fetches = run["fetches"] + run["targets"]
        self.step: Any
        if work["callable"]:
            call = self.session.make_callable(fetches, list(feeds))
            values = list(feeds.values())
            self.step = lambda: call(*values)
        else:
            self.step = lambda: self.session.run(fetches, feeds)
        started = time.perf_counter()
        self.step()
        self.first = time.perf_counter() - started


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module: Any = importlib.import_module("tensorflow")
    tf = getattr(getattr(module, "compat", module), "v1", module)
    tf.disable_eager_execution()
    tf.disable_control_flow_v2()
    tf.logging.set_verbosity(tf.logging.ERROR)
    prepared = None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["what"] == "version":
            answer: Any = "TensorFlow " + module.__version__
        elif asked["what"] == "load":
            if prepared is not None:
                prepared.session.close()
            try:
                prepared = Prepared(tf, asked["folder"])
                answer = {"load": prepared.loading, "first": prepared.first}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
        elif asked["what"] == "value":
            assert prepared is not None
            flat = np.asarray(prepared.step()[0], np.float64).reshape(-1)
            scale = np.abs(flat).mean() if flat.size > 1 else 1.0
            answer = float(flat @ np.cos(np.arange(flat.size)) / scale)
        else:
            answer = []
            assert prepared is not None
            step = prepared.step
            for _ in range(asked["repeats"]):
                started = time.perf_counter()
                step()
                answer.append(time.perf_counter() - started)
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
