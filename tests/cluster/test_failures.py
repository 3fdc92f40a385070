"""Tasks that die and come back: steps end with a clear error, and the session goes on afterwards."""

from __future__ import annotations

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.cluster.local import local_cluster

pytestmark = pytest.mark.slow


def _graph() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device("/job:ps/task:0"):
        v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
        g.ops.Assign(v, g.constant(np.float32(2)), name="init")
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
        never = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="never")
    with g.device("/job:worker/task:0"):
        g.ops.Mul(v, x, name="y")
        g.ops.Neg(never, name="waits")
    with g.device("/job:worker/task:1"):
        g.ops.Neg(x, name="elsewhere")
    return g


async def test_a_task_is_killed_and_comes_back() -> None:
    async with (
        local_cluster({"ps": 1, "worker": 2}, options=["--log-level", "error"]) as cluster,
        fe.Session(_graph(), target=cluster.target("worker", 0)) as session,
    ):
        await session.run([], targets=["init"])
        assert await session.run("y:0", {"x:0": 3}) == 6

        async def killed() -> None:
            with pytest.raises(fe.errors.OpError, match="/job:ps/task:0") as caught:
                await session.run("waits:0")
            assert isinstance(caught.value, fe.errors.UnavailableError | fe.errors.AbortedError)

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(killed)
                await trio.testing.wait_all_tasks_blocked(0.3)
                await cluster.kill("/job:ps/task:0")
        # Steps that need it fail at once, and those that do not go on.
        with trio.fail_after(120), pytest.raises(fe.errors.OpError, match="/job:ps/task:0"):
            await session.run("y:0", {"x:0": 3})
        assert await session.run("elsewhere:0", {"x:0": 3}) == -3

        await cluster.start("/job:ps/task:0")
        await cluster.wait_ready()
        with pytest.raises(fe.errors.FailedPreconditionError, match="uninitialized value v"):
            await session.run("y:0", {"x:0": 3})
        await session.run([], targets=["init"])
        assert await session.run("y:0", {"x:0": 4}) == 8


async def test_the_master_is_killed_and_comes_back() -> None:
    async with (
        local_cluster({"ps": 1, "worker": 2}, options=["--log-level", "error"]) as cluster,
        fe.Session(_graph(), target=cluster.target("worker", 0)) as session,
    ):
        await session.run([], targets=["init"])
        await cluster.kill("/job:worker/task:0")
        with trio.fail_after(120), pytest.raises(fe.errors.OpError, match=r"worker/task:0|127\.0\.0\.1"):
            await session.run("y:0", {"x:0": 3})
        await cluster.start("/job:worker/task:0")
        await cluster.wait_ready()
        # What the variable holds is the PS task's, and still there.
        assert await session.run("y:0", {"x:0": 3}) == 6


async def test_who_waits_for_a_task_that_is_started_again_finds_it() -> None:
    async with local_cluster({"worker": 1}, options=["--log-level", "error"]) as cluster:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.supervise)
            await trio.testing.wait_all_tasks_blocked()
            killed = cluster.processes["/job:worker/task:0"]
            await cluster.kill("/job:worker/task:0")
            with trio.fail_after(120):
                await cluster.wait_ready()
            assert cluster.processes["/job:worker/task:0"] is not killed
            nursery.cancel_scope.cancel()
        # Nobody starts it any more.
        await cluster.kill("/job:worker/task:0")
        with trio.fail_after(120), pytest.raises(fe.errors.UnavailableError, match="ended with exit code -9"):
            await cluster.wait_ready()
