"""A client that is killed in the middle of a step leaves none of its tensors at the tasks."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc

import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.transport.wire.identity import new_key

_CLIENT = """
import sys, trio
import flowengine as fe

async def main():
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        queue = g.ops.FIFOQueueV2(component_types=["float32"], capacity=-1, name="queue")
        x = g.ops.Fill([int(sys.argv[2])], g.placeholder("float32", [], name="x"), name="fill")
        with g.control_dependencies([x]):
            late = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="late")[0]
        y, z = g.ops.Add(x, late), g.ops.Mul(x, 3.0)
    with g.device("/job:worker/task:0"):
        held = g.ops.Neg(z)
        queue = g.ops.FIFOQueueV2(component_types=["float32"], capacity=-1, name="other_queue")
        with g.control_dependencies([held]):
            late = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="other_late")[0]
        g.ops.Add(g.ops.Add(held, y), late, name="all")
    async with fe.Session(g, target=sys.argv[1]) as session:
        await session.run("fill:0", {"x:0": 1.0})
        print("is there", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        await session.run("all:0", {"x:0": 1.0})

trio.run(main)
"""
_ELEMENTS = 1_000_000


async def _kill_one(target: str, tasks: list[fe.Server]) -> None:
    """Kill a client while its step waits at the tasks, and wait for the end of the step."""
    command = [sys.executable, "-c", _CLIENT, target, str(_ELEMENTS)]
    client = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdin is not None
    assert client.stdout is not None
    try:
        assert (await client.stdout.receive_some()).startswith(b"is there")
        before = tracemalloc.get_traced_memory()[0]
        await client.stdin.send_all(b"begin\n")
        while tracemalloc.get_traced_memory()[0] < before + 8 * _ELEMENTS:  # at either task
            await trio.lowlevel.checkpoint()
    finally:
        client.kill()
        await client.wait()
        await client.stdin.aclose()
        await client.stdout.aclose()
    for task in tasks:
        await task.worker.parts.wait_idle()


async def _held(*, below: int) -> int:
    """The bytes that are held, once they are fewer than that, or after ten seconds.

    A chunk that is under way between the tasks when the step ends is sent whole: frames are never cut.
    """
    with trio.move_on_after(10):
        while tracemalloc.get_traced_memory()[0] >= below:
            await trio.lowlevel.checkpoint()
    return tracemalloc.get_traced_memory()[0]


async def test_its_tensors_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    spec = fe.ClusterSpec.of({"ps": [ps], "worker": [worker]})
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        with trio.fail_after(30):
            async with fe.Server(spec, "ps", 0) as first, fe.Server(spec, "worker", 0) as second:
                for _ in range(2):
                    await _kill_one(f"flow://{worker}", [first, second])
                # What the tasks keep to receive into, and a little of each connection; a quarter of a tensor.
                allowed = tracemalloc.get_traced_memory()[0] + _ELEMENTS
                for _ in range(2):
                    await _kill_one(f"flow://{worker}", [first, second])
                    assert await _held(below=allowed) < allowed
    finally:
        tracemalloc.stop()
        gc.enable()
