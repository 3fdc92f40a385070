"""Loading leaves the event loop free: what takes long is read, and imported, on a thread."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import trio

import flowengine as fe

#: Prints the modules of kernels that the event loop's thread imports while it loads a model.
_SCRIPT = """
import sys, threading
import trio
import flowengine as fe
from flowengine.saved_model import loading

loop, found = threading.get_ident(), []

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("flowengine.kernels."):
            found.append((name, threading.get_ident() == loop))

async def main():
    sys.meta_path.insert(0, Finder())
    async with await loading.load(sys.argv[1]) as model:
        assert found, "nothing was imported at all"
        print([name for name, on_loop in found if on_loop])
        await model(x=[[1.0, 2.0]])

trio.run(main)
"""


async def test_kernels_are_imported_on_a_thread(tmp_path: Path) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    w = graph.variable(np.ones([2, 1], "float32"), name="w")
    y = graph.ops.Tanh(graph.ops.MatMul(x, w.value()), name="y")
    async with fe.Session(graph) as session:
        await session.initialize()
        signatures = {"serving_default": ({"x": x}, {"y": y})}
        await fe.saved_model.save(session, tmp_path / "export", signatures=signatures)
    command = [sys.executable, "-W", "error", "-c", _SCRIPT, str(tmp_path / "export")]
    ended = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == b"[]"
