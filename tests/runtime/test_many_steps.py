"""Many steps at once and many after another: what they hold, and that it is given back."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from pathlib import Path
from time import thread_time

import pytest
import trio
import trio.testing

import flowengine as fe

WAITING_STEPS = 1000
BYTES_PER_STEP_MAX = 20 * 1024


def waiting_graph() -> fe.Graph:
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
    element = g.ops.QueueDequeueV2(queue, component_types=["float32"])[0]
    g.ops.Mul(element, g.placeholder("float32", [], name="x"), name="y")
    g.ops.QueueEnqueueV2(queue, [g.placeholder("float32", [], name="element")], name="put")
    return g


async def test_a_thousand_waiting_steps_are_small_and_end_within_a_second_of_work() -> None:
    async with fe.Session(waiting_graph()) as session:
        await session.run([], {"element:0": 2.0}, targets=["put"])
        assert await session.run("y:0", {"x:0": 3.0}) == 6.0

        async def step() -> None:
            await session.run("y:0", {"x:0": 1.0})

        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    for _ in range(WAITING_STEPS):
                        nursery.start_soon(step)
                    await trio.testing.wait_all_tasks_blocked()
                    each = (tracemalloc.get_traced_memory()[0] - before) / WAITING_STEPS
                    tracemalloc.stop()
                    assert each < BYTES_PER_STEP_MAX
                    started = thread_time()
                    scope.cancel()
            assert thread_time() - started < 1.0
        finally:
            tracemalloc.stop()

        # Nobody waits any more: a new element goes to a new step.
        await session.run([], {"element:0": 5.0}, targets=["put"])
        assert await session.run("y:0", {"x:0": 3.0}) == 15.0


TRAINING = """
import resource, sys
import numpy as np, trio
import flowengine as fe

def build():
    g = fe.Graph()
    ops = g.ops
    x, y = g.placeholder("float32", [None, 20], name="x"), g.placeholder("float32", [None, 5], name="y")
    rng = np.random.default_rng(0)
    w1 = ops.VariableV2(dtype="float32", shape=[20, 16], name="w1")
    w2 = ops.VarHandleOp(dtype="float32", shape=[16, 5], shared_name="w2", name="w2")
    start1, start2 = (rng.normal(size=s).astype(np.float32) / 4 for s in ((20, 16), (16, 5)))
    g.group(ops.Assign(w1, start1), ops.AssignVariableOp(w2, start2), name="init")
    w2_value = ops.ReadVariableOp(w2, dtype="float32")
    h = ops.Tanh(ops.MatMul(x, w1))
    error = ops.Sub(ops.MatMul(h, w2_value), y)
    ops.Sum(ops.Square(error), [0, 1], name="loss")
    d_h = ops.TanhGrad(h, ops.MatMul(error, w2_value, transpose_b=True))
    rate = g.constant(0.001)
    g.group(
        ops.AssignSub(w1, ops.Mul(ops.MatMul(x, d_h, transpose_a=True), rate)),
        ops.AssignSubVariableOp(w2, ops.Mul(ops.MatMul(h, error, transpose_a=True), rate)),
        name="train",
    )
    return g

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

async def main():
    rng = np.random.default_rng(1)
    feeds = {"x:0": rng.normal(size=(8, 20)), "y:0": rng.normal(size=(8, 5))}
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    async with fe.Session(build()) as session:
        await session.run([], targets=["init"])
        first = await session.run("loss:0", feeds)
        for number in range(1, 10001):
            loss = await session.run("loss:0", feeds, targets=["train"])
            if number == 1000:
                at_1000 = resident()
        assert loss < first, (loss, first)
        print(resident() - at_1000)

trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the resident set")
def test_ten_thousand_training_steps_do_not_grow(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAINING], cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 2 * 2**20
