"""How long processes take to start: importing the package, and the command line from start to value."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import flowengine as fe

TENSORFLOW_PROGRAM = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as module
tf = module.compat.v1
definition = tf.GraphDef()
definition.ParseFromString(open(sys.argv[1], "rb").read())
with tf.Graph().as_default() as graph:
    tf.import_graph_def(definition, name="")
print(tf.Session(graph=graph).run("y:0", {"x:0": 2.0}))
"""


def seconds_of(command: Sequence[str]) -> float:
    """Wall time of a process, from its start to its end."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"{list(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return took


def interleaved(commands: Sequence[Sequence[str]], rounds: int) -> list[float]:
    """The median wall time of each command, run in turns."""
    for command in commands:
        seconds_of(command)  # once for the files' sake
    times = [[seconds_of(command) for command in commands] for _ in range(rounds)]
    return [median(column) for column in zip(*times, strict=True)]


def import_ratio(rounds: int = 15) -> tuple[float, float]:
    """Seconds of `import flowengine` and of `import numpy`. Our own modules that an import needs are a few
    small files beside NumPy's two hundred: 1.1, the limit is 1.3."""
    ours, numpys = interleaved(
        [[sys.executable, "-c", "import flowengine"], [sys.executable, "-c", "import numpy"]], rounds
    )
    return ours, numpys


def ten_node_graph(folder: Path) -> Path:
    """A graph of ten nodes: y = the sum of four sums of x."""
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    y = x
    for _ in range(8):
        y = g.ops.Add(y, x)
    g.ops.Identity(y, name="y")
    path = folder / "ten.pb"
    path.write_bytes(g.to_graph_def().SerializeToString())
    return path


def command_line_commands(folder: Path, tensorflow: str | None) -> list[list[str]]:
    """`flowengine run` on ten nodes takes Python, NumPy, trio and the graph, 0.25 s on a quiet core, where
    importing TensorFlow takes 2 to 4: the limit is 1/5."""
    path = str(ten_node_graph(folder))
    commands = [[sys.executable, "-m", "flowengine", "run", path, "--feed", "x=2.0", "--fetch", "y"]]
    if tensorflow is not None:
        commands.append([tensorflow, "-c", TENSORFLOW_PROGRAM, path])
    return commands
