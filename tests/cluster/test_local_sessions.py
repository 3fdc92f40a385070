"""A session whose master is in its own process: as any other, and without a connection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster import local_sessions
from flowengine.cluster.local import free_ports
from flowengine.transport.calls.service import Service
from flowengine.transport.wire.identity import new_key


def graph() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    with g.device("/job:ps/task:0"):
        v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
        g.ops.Assign(v, g.constant(np.float32(2)), name="init")
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
        never = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="never")
        g.ops.QueueEnqueueV2(queue, [g.constant(np.float32(5))], name="put")
    with g.device("/job:worker/task:0"):
        g.ops.Mul(x, v, name="y")
        g.ops.Neg(never, name="waits")
        g.ops.MatMul(g.ops.ExpandDims(x, 0), g.ops.ExpandDims(x, 1), name="square")
        g.ops.Reshape(x, g.constant(np.array([3], np.int32)), name="wrong")
    return g


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> fe.ClusterSpec:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    return fe.ClusterSpec.of({"ps": [ps], "worker": [worker]})


def test_a_server_is_found_in_its_own_run_and_until_it_leaves() -> None:
    """One that comes to the address of another before that has left stays when it does."""
    key = new_key()

    async def enter() -> local_sessions.NearMaster:
        await trio.lowlevel.checkpoint()
        found = local_sessions.enter("tcp://h:1", "c", key, Service({}))
        assert found is not None
        assert local_sessions.find("tcp://h:1", "c", key) is found
        return found

    async def follow(first: local_sessions.NearMaster) -> None:
        assert local_sessions.find("tcp://h:1", "c", key) is None, "of a run of trio that is over"
        second = await enter()
        local_sessions.leave(first)
        assert local_sessions.find("tcp://h:1", "c", key) is second
        local_sessions.leave(second)
        assert local_sessions.find("tcp://h:1", "c", key) is None

    trio.run(follow, trio.run(enter))


def clients(server: fe.Server, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that collects the owner of each session created at a server from now on."""
    found: list[Any] = []
    create = server.master.create_session

    def creating(owner: Any, *rest: Any) -> Any:
        found.append(owner)
        return create(owner, *rest)

    monkeypatch.setattr(server.master, "create_session", creating)
    return found


async def test_steps_without_a_connection(spec: fe.ClusterSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fe.Server(spec, "ps", 0), fe.Server(spec, "worker", 0) as server:
        owners = clients(server, monkeypatch)
        async with fe.Session(graph(), target=server.target) as session:
            await session.run([], targets=["init"])
            for count in range(1, 20):
                y = await session.run("y:0", {"x:0": np.arange(count, dtype=np.float32)})
                assert y.tolist() == [2 * n for n in range(count)]
            assert await session.run("square:0", {"x:0": [1.0, 2.0]}) == 5
            with pytest.raises(fe.errors.InvalidArgumentError, match="wrong"):
                await session.run("wrong:0", {"x:0": [1.0, 2.0]})
            assert (await session.run("y:0", {"x:0": [3.0]})).tolist() == [6]
        (owner,) = owners
        assert server.links.open_peer(owner.task) is None
        assert not server.master.watch.steps, "nobody looks at steps that are over"
        assert server.master.statistics()["sessions"] == 0


async def test_what_is_fetched_is_the_callers_own(spec: fe.ClusterSpec) -> None:
    g = fe.Graph()
    with g.device("/job:worker/task:0"):
        v = g.ops.VariableV2(shape=[4], dtype="float32", name="v")
        g.ops.Assign(v, g.placeholder("float32", [4], name="x"), name="init")
        g.ops.Identity(v, name="read")
    async with (
        fe.Server(spec, "ps", 0),
        fe.Server(spec, "worker", 0) as server,
        fe.Session(g, target=server.target) as session,
    ):
        mine = np.ones(4, np.float32)
        await session.run([], {"x:0": mine}, targets=["init"])
        for _ in range(8):
            found = await session.run("read:0")
            found += 5
        assert (await session.run("read:0")).tolist() == [1, 1, 1, 1]


async def test_a_step_that_waits_is_cancelled_and_ended(spec: fe.ClusterSpec) -> None:
    async with (
        fe.Server(spec, "ps", 0) as ps,
        fe.Server(spec, "worker", 0) as server,
        fe.Session(graph(), target=server.target) as session,
    ):
        for _ in range(6):
            with trio.move_on_after(0.02) as scope:
                await session.run("waits:0")
            assert scope.cancelled_caught
        with trio.fail_after(120):
            while ps.worker.steps_running or server.worker.steps_running:
                await trio.lowlevel.checkpoint()
        found: list[float] = []

        async def wait() -> None:
            found.append(np.asarray(await session.run("waits:0")).item())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await session.run([], targets=["put"])
        assert found == [-5]


async def test_a_server_that_has_ended(spec: fe.ClusterSpec) -> None:
    outcome: list[BaseException] = []
    leave = trio.Event()
    servers: list[fe.Server] = []

    async def serve(task_status: trio.TaskStatus[str]) -> None:
        async with fe.Server(spec, "worker", 0) as server:
            servers.append(server)
            task_status.started(server.target)
            await leave.wait()

    with trio.fail_after(120):
        async with fe.Server(spec, "ps", 0), trio.open_nursery() as nursery:
            session = fe.Session(graph(), target=await nursery.start(serve))
            await session.run([], targets=["init"])

            async def wait() -> None:
                try:
                    await session.run("waits:0")
                except fe.errors.OpError as error:
                    outcome.append(error)

            nursery.start_soon(wait)
            while not servers[0].worker.steps_running:
                await trio.lowlevel.checkpoint()
            leave.set()
            while not outcome:
                await trio.lowlevel.checkpoint()
            assert isinstance(outcome[0], fe.errors.UnavailableError)
            with pytest.raises(fe.errors.UnavailableError, match="no server answers"):
                await session.run("y:0", {"x:0": [1.0]})
            await session.close()


async def test_another_key_or_cluster_is_left_to_a_connection(
    spec: fe.ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fe.Server(spec, "ps", 0), fe.Server(spec, "worker", 0) as server:
        for query, says in (("?cluster=other", "cluster"), ("", "refused|prove|key")):
            if not query:
                monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
            session = fe.Session(graph(), target=server.target + query)
            with pytest.raises(fe.errors.OpError, match=says):
                await session.run([], targets=["init"])
            await session.close()
        assert server.master.statistics()["sessions"] == 0
