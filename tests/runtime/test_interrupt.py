"""Ctrl-C at any moment of a step: the caller sees KeyboardInterrupt, and the next step is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import examples

#: Moments of a step at which Ctrl-C comes.
MOMENTS = examples(200)

PROGRAM = """
import os, signal, sys, threading
import numpy as np, trio
import flowengine as fe
from flowengine.testing.control import while_loop

MOMENTS = int(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

def build():
    g = fe.Graph()
    ops = g.ops
    count = g.placeholder("int32", [], name="count")
    x = g.placeholder("float32", [200, 200], name="x")
    steps = ops.VariableV2(dtype="int32", shape=[], name="steps")
    ops.Assign(steps, 0, name="init")
    ops.Identity(steps, name="steps/read")
    queue = ops.FIFOQueueV2(component_types=["int32"], shapes=[[]], name="queue")
    zero = ops.Identity(ops.Sub(count, count))
    _, total = while_loop(
        g, lambda i, t, n: ops.Less(i, n), lambda i, t, n: [ops.Add(i, 1), ops.Add(t, i)], [zero, zero],
        invariants=[count],
    )
    with g.control_dependencies([ops.QueueEnqueueV2(queue, [total])]):
        back = ops.QueueDequeueV2(queue, component_types=["int32"])[0]
    product = x
    for _ in range(8):
        product = ops.MatMul(product, x)
    with g.control_dependencies([back, product]):
        ops.AssignAdd(steps, 1, name="done")
    ops.QueueSizeV2(queue, name="size")
    ops.QueueDequeueV2(queue, component_types=["int32"], name="drain")
    ops.Identity(back, name="total")
    ops.Identity(product, name="product")
    return g

@trio.lowlevel.disable_ki_protection
async def interruptible(session, feeds):
    return await session.run(["total:0", "product:0"], feeds, targets=["done"])

@trio.lowlevel.enable_ki_protection
async def main():
    x = np.eye(200, dtype=np.float32)[::-1].copy()
    feeds = {"count:0": 600, "x:0": x}
    want = sum(range(600))
    interrupted = completed = 0
    async with fe.Session(build()) as session:
        await session.run([], targets=["init"])
        started = trio.current_time()
        for _ in range(3):
            await session.run(["total:0", "product:0"], feeds)
        length = (trio.current_time() - started) / 3
        before = 0
        for moment in range(MOMENTS):
            timer = threading.Timer(length * 1.2 * moment / MOMENTS, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            finished = False
            try:
                try:
                    total, product = await interruptible(session, feeds)
                    finished = True
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.to_thread.run_sync(timer.join)
                    await trio.lowlevel.checkpoint()
            except KeyboardInterrupt:
                interrupted += 1
            if finished:
                completed += 1
                assert total == want and np.array_equal(product, x), (moment, total)
            size, count = await session.run(["size:0", "steps/read:0"])
            assert size in (0, 1) and before <= count <= before + 1, (moment, size, count)
            assert count == before + 1 or not finished, (moment, count)
            for _ in range(size):  # an Enqueue that had completed keeps its effect
                assert await session.run("drain:0") == want
            total, product = await session.run(["total:0", "product:0"], {"count:0": 10, "x:0": x})
            assert total == 45 and np.array_equal(product, x), (moment, total)
            before = count
    print(interrupted, completed)

trio.run(main)
"""


@pytest.mark.slow
def test_interrupts_at_many_moments_leave_the_session_right(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(MOMENTS)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    interrupted, completed = map(int, done.stdout.split())
    assert interrupted == MOMENTS
    assert completed < MOMENTS
