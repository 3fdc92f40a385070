"""Control flow that is built here runs in TensorFlow 1.15, with the same values."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe

TENSORFLOW: Final = os.environ.get("FLOWENGINE_TENSORFLOW_PYTHON", "")
SCRIPT: Final = """
import sys, numpy as np, tensorflow as tf
definition = tf.compat.v1.GraphDef()
definition.ParseFromString(open(sys.argv[1], "rb").read())
graph = tf.Graph()
with graph.as_default():
    tf.import_graph_def(definition, name="")
x = np.array([[1, 2, 3], [-1, 0.5, 0]], np.float32)
with tf.compat.v1.Session(graph=graph) as session:
    np.savez(sys.argv[2], *session.run(["o%d:0" % k for k in range(5)], {"x:0": x, "n:0": 4}))
"""


@pytest.mark.skipif(
    not TENSORFLOW, reason="FLOWENGINE_TENSORFLOW_PYTHON names no Python with TensorFlow 1.15"
)
def test_tensorflow_runs_the_same_graph(tmp_path: Path) -> None:
    graph = fe.Graph()
    x, n = graph.placeholder("float32", [None, 3], name="x"), graph.placeholder("int32", [], name="n")

    def body(i: Any, v: Any) -> Any:
        return i + 1, graph.cond(fe.reduce_sum(v) > 5.0, lambda: v * 0.5, lambda: v + fe.reduce_mean(x))

    _, looped = graph.while_loop(lambda i, v: i < n, body, (0, x))
    mapped = graph.map(lambda row: fe.reduce_sum(fe.nn.softmax(row[None, :] * 2)) * row[::-1], looped)
    scanned = graph.scan(lambda so_far, row: so_far * 0.5 + row, x)
    (slope,) = fe.gradients(fe.reduce_sum(mapped * mapped), x)
    switched = graph.switch_case(n, [lambda: x * 1.0, lambda: x * 2.0, lambda: x * 3.0])
    outputs = [
        fe.identity(each, name=f"o{k}") for k, each in enumerate([looped, mapped, scanned, slope, switched])
    ]
    graph.save(tmp_path / "graph.pb")
    command = [TENSORFLOW, "-c", SCRIPT, str(tmp_path / "graph.pb"), str(tmp_path / "theirs.npz")]
    subprocess.run(command, check=True, capture_output=True)
    with fe.blocking.Session(graph) as session:
        ours = session.run(outputs, {x: [[1, 2, 3], [-1, 0.5, 0]], n: 4})
    theirs = np.load(tmp_path / "theirs.npz")
    for k, each in enumerate(ours):
        np.testing.assert_allclose(each, theirs[f"arr_{k}"], rtol=1e-6)
