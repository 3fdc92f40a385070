"""A program that ends while a cancelled step's kernel is still on its thread ends all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

PROGRAM = """
import numpy as np, trio, flowengine as fe

graph = fe.Graph()
a = graph.placeholder("float64", [None, None], name="a")
product = graph.ops.MatMul(a, a)
for _ in range(10):
    product = graph.ops.MatMul(product, a)
graph.ops.Sum(product, [0, 1], name="sum")

async def main():
    async with fe.Session(graph) as session:
        with trio.move_on_after(0.05) as scope:
            await session.run("sum:0", {"a:0": np.full((1500, 1500), 1e-4)})
        print("cancelled" if scope.cancelled_caught else "finished")

trio.run(main)
"""


@pytest.mark.slow
def test_a_kernel_that_was_left_behind_does_not_hold_up_the_end() -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "cancelled\n", "")
