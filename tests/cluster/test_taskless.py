"""Parts of steps get a task only if they need one, and end alike with and without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.transport.wire.identity import new_key

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"


class CountingNursery:
    """A nursery that counts the tasks that are begun in it."""

    def __init__(self, nursery: trio.Nursery | None) -> None:
        assert nursery is not None
        self._nursery = nursery
        self.tasks = 0

    def start_soon(self, *arguments: Any) -> None:
        self.tasks += 1
        self._nursery.start_soon(*arguments)


@asynccontextmanager
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[fe.Server, fe.Server]]:
    """A PS task and a worker whose nurseries count."""
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    spec = fe.ClusterSpec.of({"ps": [ps], "worker": [worker]})
    async with fe.Server(spec, "ps", 0) as first, fe.Server(spec, "worker", 0) as second:
        for server in (first, second):
            parts = server.worker.parts
            monkeypatch.setattr(parts, "nursery", CountingNursery(parts.nursery))
        yield first, second


def tasks(*servers: fe.Server) -> int:
    return sum(getattr(server.worker.parts.nursery, "tasks", 0) for server in servers)


async def test_a_small_step_makes_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device(PS):
        doubled = g.ops.Mul(x, g.constant(np.float32(2)))
    with g.device(WORKER):
        added = g.ops.Add(doubled, g.constant(np.float32(1)))
    with g.device(PS):
        g.ops.Neg(added, name="y")
    async with cluster(monkeypatch) as (ps, worker), fe.Session(g, target=worker.target) as session:
        for number in range(12):
            assert await session.run("y:0", {"x:0": number}) == -(2 * number + 1)
        assert tasks(ps, worker) == 0
        metadata = fe.RunMetadata()
        assert await session.run("y:0", {"x:0": 3}, run_metadata=metadata) == -7
        assert set(metadata.details) == {PS, WORKER}


async def test_heavy_kernels_and_long_steps_go_on_in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None, None], name="x")
    with g.device(PS):
        product = g.ops.MatMul(x, x)
    with g.device(WORKER):
        value = g.ops.Sum(product, g.constant(np.array([0, 1], np.int32)), name="total")
        for _ in range(4000):
            value = g.ops.Neg(value)
        g.ops.Identity(value, name="y")
    matrix = np.ones((900, 900), np.float32)
    async with cluster(monkeypatch) as (ps, worker), fe.Session(g, target=worker.target) as session:
        for _ in range(3):
            assert await session.run("y:0", {"x:0": matrix}) == 900.0**3
        assert tasks(ps) >= 3
        assert tasks(worker) >= 1
        assert ps.worker.steps_running == worker.worker.steps_running == 0


@pytest.mark.parametrize("where", [PS, WORKER])
async def test_an_error_ends_the_step_everywhere(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    with g.device(where):
        bad = g.ops.FloorDiv(g.constant(np.int32(1)), x, name="bad")
    with g.device(WORKER if where == PS else PS):
        g.ops.Neg(bad, name="y")
        queue = g.ops.FIFOQueueV2(component_types=["int32"], shapes=[[]], name="queue")
        g.ops.QueueDequeueV2(queue, component_types=["int32"], name="never")
    async with cluster(monkeypatch) as (ps, worker), fe.Session(g, target=worker.target) as session:
        for _ in range(4):
            with trio.fail_after(120), pytest.raises(fe.errors.InvalidArgumentError) as raised:
                await session.run("y:0", {"x:0": 0}, targets=["never"])
            assert raised.value.node_name == "bad"
            assert raised.value.device == where.replace("/task", "/replica:0/task") + "/device:CPU:0"
        assert await session.run("y:0", {"x:0": 1}) == -1
        with trio.fail_after(120):
            while ps.worker.steps_running or worker.worker.steps_running:
                await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("options", [None, fe.RunOptions(timeout_seconds=600)])
async def test_a_closed_session_ends_what_waits(
    monkeypatch: pytest.MonkeyPatch, options: fe.RunOptions | None
) -> None:
    """Also a step with a timeout, which has a task at its master."""
    g = fe.Graph()
    with g.device(PS):
        queue = g.ops.FIFOQueueV2(component_types=["int32"], shapes=[[]], name="queue")
        never = g.ops.QueueDequeueV2(queue, component_types=["int32"], name="never")
    with g.device(WORKER):
        g.ops.Neg(never, name="y")
    async with cluster(monkeypatch) as (ps, worker), trio.open_nursery() as nursery:
        session = fe.Session(g, target=worker.target)

        async def wait() -> None:
            with pytest.raises(fe.errors.CancelledError):
                await session.run("y:0", options=options)

        nursery.start_soon(wait)
        with trio.fail_after(120):
            while not (ps.worker.steps_running and worker.worker.steps_running):
                await trio.lowlevel.checkpoint()
            await session.close()
            while ps.worker.steps_running or worker.worker.steps_running:
                await trio.lowlevel.checkpoint()
