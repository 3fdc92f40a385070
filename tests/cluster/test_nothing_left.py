"""Nothing of a step over tasks, of a session or of a connection waits for the collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.transport.peer import Peer
from flowengine.transport.wire.identity import new_key
from tests.garbage import no_garbage


def _graph() -> fe.Graph:
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        x = g.ops.Fill([100_000], g.placeholder("float32", [], name="x"), name="fill")
        queue = g.ops.FIFOQueueV2(component_types=["float32"], capacity=-1, name="queue")
        with g.control_dependencies([x]):
            late = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="late")[0]
    with g.device("/job:worker/task:0"):
        y = g.ops.Mul(x, 2.0, name="y")
        g.ops.Add(y, late, name="waits")
        g.ops.Reshape(y, g.placeholder("int32", [None], name="shape"), name="bad")
    return g


async def _whole(session: fe.Session) -> None:
    await session.run("y:0", {"x:0": 1.0})


async def _failed(session: fe.Session) -> None:
    try:
        await session.run("bad:0", {"x:0": 1.0, "shape:0": [7]})
    except fe.errors.InvalidArgumentError:
        return
    raise AssertionError("it does not fail")


async def _cancelled(session: fe.Session) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run, "waits:0", {"x:0": 1.0})
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()


_ENDS: dict[str, Callable[[fe.Session], Awaitable[None]]] = {
    "whole": _whole,
    "failed": _failed,
    "cancelled": _cancelled,
}


@asynccontextmanager
async def _cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, list[fe.Server]]]:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    spec = fe.ClusterSpec.of({"ps": [ps], "worker": [worker]})
    async with fe.Server(spec, "ps", 0) as first, fe.Server(spec, "worker", 0) as second:
        # Under a name of its own a session dials, also within one process.
        yield f"flow://{worker}?client=me", [first, second]


async def _idle(servers: list[fe.Server]) -> None:
    for each in servers:
        await each.worker.parts.wait_idle()
    await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.mark.parametrize("end", _ENDS)
async def test_a_step_over_tasks_leaves_nothing(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _cluster(monkeypatch) as (target, servers), fe.Session(_graph(), target=target) as session:
        await _ENDS[end](session)
        await _idle(servers)
        async with no_garbage():
            for _ in range(3):
                await _ENDS[end](session)
            await _idle(servers)


@pytest.mark.parametrize("end", _ENDS)
async def test_a_session_and_its_connection_leave_nothing(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _cluster(monkeypatch) as (target, servers):
        graph = _graph()

        async def session_of_its_own() -> list[weakref.ref[Peer]]:
            async with fe.Session(graph, target=target) as session:
                await _ENDS[end](session)
                known = [each for each in gc.get_objects() if isinstance(each, Peer)]
                return [weakref.ref(each) for each in known if "client" in each.identity.role]

        await session_of_its_own()
        await _idle(servers)
        async with no_garbage():
            for _ in range(2):
                peers = await session_of_its_own()
                await _idle(servers)
                assert peers
                assert [each() for each in peers] == [None] * len(peers)
