"""The peak of TensorFlow's allocator during one step of a workload: the counterpart of `memory.py`.

Runs under another Python, so it uses nothing of this project and no syntax newer than Python 3.7. The
peak is made of the allocations and releases that a fully traced step records, in the order of their
times: what kernels take for their outputs and for themselves, but no variables and no feeds.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import numpy as np


def read(value: Any, folder: str) -> Any:
    return np.load(os.path.join(folder, value["npy"]))


def peak_of(metadata: Any) -> int:
    """The most bytes alive at once, by the records of a step."""
    events = []
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            for memory in node.memory:
                events += [(r.alloc_micros, r.alloc_bytes) for r in memory.allocation_records]
    live = peak = 0
    # Of the same microsecond the releases first: never more than there was.
    for _, size in sorted(events):
        live += size
        peak = max(peak, live)
    return peak


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder, steps = sys.argv[1], int(sys.argv[2])
    module = importlib.import_module("tensorflow")
    tf = getattr(getattr(module, "compat", module), "v1", module)
    tf.disable_eager_execution()
    tf.disable_control_flow_v2()
    with open(os.path.join(folder, "workload.json"), encoding="utf-8") as file:
        work = json.load(file)
    os.chdir(folder)
    definition = tf.GraphDef()
    with open(work["graph"], "rb") as binary:
        definition.ParseFromString(binary.read())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    session = tf.Session(graph=graph)
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    for run in work["setup"]:
        feeds = {name: read(value, folder) for name, value in run["feeds"].items()}
        session.run(run["fetches"] + run["targets"], feeds)
    run = work["run"]
    feeds = {name: read(value, folder) for name, value in run["feeds"].items()}
    peaks = []
    for _ in range(steps):
        metadata = tf.RunMetadata()
        session.run(run["fetches"] + run["targets"], feeds, options=options, run_metadata=metadata)
        peaks.append(peak_of(metadata))
    out.write(json.dumps(peaks) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
