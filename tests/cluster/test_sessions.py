"""Sessions at a master: three tasks of a cluster in one trio program, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster import remote
from flowengine.cluster.worker.worker import Worker
from flowengine.core.files.secrets import write_new
from flowengine.testing.control import while_loop
from flowengine.transport.wire.identity import new_key
from tests.system_tasks import system_tasks


@asynccontextmanager
async def cluster(tmp_path: Path, **jobs: int) -> AsyncIterator[tuple[dict[str, fe.Server], str]]:
    """({task: server}, what a target needs beside its address) of a cluster with so many tasks a job."""
    key = new_key()
    key_file = tmp_path / "cluster.key"
    write_new(key_file, key.hex().encode())
    ports = await _free_ports(sum(jobs.values()))
    addresses = {job: [f"127.0.0.1:{ports.pop()}" for _ in range(count)] for job, count in jobs.items()}
    spec = fe.ClusterSpec.of(addresses, name="test", key_file=str(key_file))
    async with AsyncExitStack() as stack:
        servers = {}
        for job, count in jobs.items():
            for task in range(count):
                server = await stack.enter_async_context(fe.Server(spec, job, task))
                servers[server.name] = server
        yield servers, f"?cluster=test&key_file={key_file}"


async def _free_ports(count: int) -> list[int]:
    listeners = [(await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] for _ in range(count)]
    ports = [listener.socket.getsockname()[1] for listener in listeners]
    for listener in listeners:
        await listener.aclose()
    return ports


async def test_a_step_over_three_tasks(tmp_path: Path) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    with g.device("/job:ps/task:0"):
        w = g.ops.VariableV2(shape=[], dtype="float32", name="w")
        g.ops.Assign(w, g.constant(np.float32(3)), name="init")
    with g.device("/job:worker/task:0"):
        a = g.ops.Mul(x, w, name="a")
    with g.device("/job:worker/task:1"):
        g.ops.Sum(a, g.constant(np.array([0], np.int32)), name="y")
    async with cluster(tmp_path, ps=1, worker=2) as (servers, query):
        target = servers["/job:worker/task:0"].target + query
        async with fe.Session(g, target=target) as session:
            await session.run([], targets=["init"])
            with pytest.raises(fe.errors.InvalidArgumentError, match="keep_on_device: the step runs in"):
                await session.run("a:0", {"x:0": [1.0]}, options=fe.RunOptions(keep_on_device=True))
            for _ in range(3):
                y, a_value = await session.run(["y:0", "a:0"], {"x:0": np.array([1, 2], np.float32)})
                assert y == 9
                assert a_value.tolist() == [3, 6]
        master = servers["/job:worker/task:0"].master
        assert master.messages["run_graph"] == 1 + 3 * 3


async def test_a_task_in_another_life_than_was_known_is_asked_again(tmp_path: Path) -> None:
    """Its restart may have gone unheard: the task itself refuses, and the next step has to know better."""
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device("/job:worker/task:1"):
        g.ops.Neg(x, name="y")
        g.ops.Square(x, name="z")
    async with cluster(tmp_path, worker=2) as (servers, query):
        members = servers["/job:worker/task:0"].master.members
        async with fe.Session(g, target=servers["/job:worker/task:0"].target + query) as session:
            assert await session.run("y:0", {"x:0": 3}) == -3
            incarnation, offers = members.known["/job:worker/task:1"]
            members.known["/job:worker/task:1"] = (incarnation - 1, offers)
            with pytest.raises(fe.errors.AbortedError, match="has restarted"):
                await session.run("z:0", {"x:0": 3})
            assert await session.run("z:0", {"x:0": 3}) == 9
            assert members.known["/job:worker/task:1"][0] == incarnation


def _loop(g: fe.Graph, devices: list[str]) -> None:
    """y = x * 2^n by a while loop whose body is split over devices."""
    x = g.placeholder("float32", [], name="x")
    n = g.placeholder("int32", [], name="n")

    def body(i: Any, total: Any, n: Any) -> tuple[Any, Any]:
        with g.device(devices[0]):
            following = g.ops.Add(i, g.constant(np.int32(1)))
        with g.device(devices[1]):
            return following, g.ops.Add(total, total)

    start = [g.constant(np.int32(0)), x]
    results = while_loop(g, lambda i, total, n: g.ops.Less(i, n), body, start, invariants=[n])
    g.ops.Identity(results[1], name="y")


async def test_a_loop_that_is_split_over_tasks(tmp_path: Path) -> None:
    g = fe.Graph()
    _loop(g, ["/job:worker/task:0", "/job:worker/task:1"])
    async with cluster(tmp_path, worker=2) as (servers, query):
        target = servers["/job:worker/task:1"].target + query
        async with fe.Session(g, target=target) as session:
            for n in (0, 1, 5):
                assert await session.run("y:0", {"x:0": 3, "n:0": n}) == 3 * 2**n


async def test_the_first_error_is_told_with_its_task(tmp_path: Path) -> None:
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    with g.device("/job:worker/task:0"):
        a = g.ops.FloorDiv(g.constant(np.int32(6)), x, name="a")
    with g.device("/job:worker/task:1"):
        g.ops.Neg(a, name="y")
    async with (
        cluster(tmp_path, worker=2) as (servers, query),
        fe.Session(g, target=servers["/job:worker/task:1"].target + query) as session,
    ):
        for _ in range(3):
            with pytest.raises(fe.errors.InvalidArgumentError, match="division by zero") as caught:
                await session.run("y:0", {"x:0": 0})
            assert caught.value.node_name == "a"
            assert caught.value.device is not None
            assert caught.value.device.startswith("/job:worker/replica:0/task:0")
            assert await session.run("y:0", {"x:0": 2}) == -3


async def test_queues_are_barriers_between_clients(tmp_path: Path) -> None:
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        queue = g.ops.FIFOQueueV2(
            component_types=["int64"], shapes=[[]], capacity=2, shared_name="barrier", name="queue"
        )
    x = g.placeholder("int64", [], name="x")
    with g.device("/job:ps/task:0"):
        g.ops.QueueEnqueueV2(queue, [x], name="put")
        g.ops.QueueDequeueV2(queue, component_types=["int64"], name="get")
    async with cluster(tmp_path, ps=1, worker=1) as (servers, query):
        first = fe.Session(g, target=servers["/job:ps/task:0"].target + query)
        second = fe.Session(g, target=servers["/job:worker/task:0"].target + query)
        async with first, second:
            got: list[int] = []

            async def take() -> None:
                got.extend([int(await second.run("get:0")) for _ in range(10)])

            async with trio.open_nursery() as nursery:
                nursery.start_soon(take)
                for number in range(10):
                    await first.run([], {"x:0": number}, targets=["put"])
            assert got == list(range(10))


async def test_a_cancelled_step_leaves_every_task_usable(tmp_path: Path) -> None:
    g = fe.Graph()
    with g.device("/job:worker/task:0"):
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
        a = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="get")
        g.ops.QueueEnqueueV2(queue, [g.constant(np.float32(2))], name="put")
    with g.device("/job:worker/task:1"):
        g.ops.Neg(a, name="y")
    async with (
        cluster(tmp_path, worker=2) as (servers, query),
        fe.Session(g, target=servers["/job:worker/task:1"].target + query) as session,
    ):
        for _ in range(5):
            with trio.move_on_after(0.02) as scope:
                await session.run("y:0")
            assert scope.cancelled_caught
        with pytest.raises(fe.errors.DeadlineExceededError):
            await session.run("y:0", options=fe.RunOptions(timeout_seconds=0.02))
        await session.run([], targets=["put"])
        assert await session.run("y:0") == -2
        for server in servers.values():
            await server.worker.wait_idle()
            assert server.worker.exchange.statistics().values_waiting == 0


@pytest.mark.parametrize("client", ["", "&client=me"], ids=["near", "over a connection"])
async def test_a_call_that_its_session_overtakes_is_cancelled(tmp_path: Path, client: str) -> None:
    """Wherever the call is when the session closes: it is not told of sessions or links that are missing."""
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
    g.ops.QueueDequeueV2(queue, component_types=["float32"], name="get")
    g.ops.Neg(g.placeholder("float32", [], name="x"), name="y")
    g.ops.RandomUniform([1], dtype="float32", seed=1)
    calls: dict[str, Callable[[fe.Session], Awaitable[Any]]] = {
        "get": lambda session: session.run("get:0"),
        "y": lambda session: session.run("y:0", {"x:0": 1.0}),
        "reset": lambda session: session.reset(["other"]),
        "places": lambda session: session.random_places(),
    }
    ends: dict[str, set[str]] = {name: set() for name in calls}

    async def call(session: fe.Session, name: str) -> None:
        try:
            await calls[name](session)
            ends[name].add("value")
        except fe.errors.OpError as error:
            ends[name].add(f"{type(error).__name__}: {error.message}")

    async with cluster(tmp_path, worker=1) as (servers, query):
        target = servers["/job:worker/task:0"].target + query + client
        for used_before in (False, True):
            for name in calls:
                for turns in range(12):
                    session = fe.Session(g, target=target)
                    if used_before:
                        await session.run("y:0", {"x:0": 1.0})
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(call, session, name)
                        nursery.start_soon(call, session, name)
                        for _ in range(turns):
                            await trio.lowlevel.checkpoint()
                        await session.close()
        with trio.fail_after(120):
            while servers["/job:worker/task:0"].master.statistics()["sessions"]:
                await trio.lowlevel.checkpoint()
            while system_tasks("flowengine client of"):
                await trio.lowlevel.checkpoint()
    closed = "CancelledError: the session was closed while this step was running"
    before = "FailedPreconditionError: this session is closed: open another"
    assert ends.pop("get") == {closed, before}
    assert all(told <= {closed, before, "value"} and closed in told for told in ends.values()), ends


@pytest.mark.parametrize("client", ["", "&client=me"], ids=["near", "over a connection"])
async def test_a_reset_that_its_session_overtakes_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    """Tasks of iterators may take long to end: the session closes while the master waits for them."""
    has_begun = trio.Event()

    async def ended(*_: Any) -> None:
        has_begun.set()
        await trio.sleep_forever()

    monkeypatch.setattr(Worker, "reset", ended)
    async with cluster(tmp_path, worker=1) as (servers, query):
        session = fe.Session(fe.Graph(), target=servers["/job:worker/task:0"].target + query + client)

        async def reset() -> None:
            with pytest.raises(fe.errors.CancelledError, match="the session was closed"):
                await session.reset([])

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reset)
                await has_begun.wait()
                await session.close()


async def test_a_step_that_is_cancelled_while_it_connects_leaves_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "find", lambda *_: None)  # a master of this process would need none
    g = fe.Graph()
    g.ops.Neg(g.constant(np.float32(3)), name="y")
    async with cluster(tmp_path, worker=1) as (servers, query):
        server = servers["/job:worker/task:0"]
        for turns in range(12):
            async with fe.Session(g, target=server.target + query) as session, trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "y:0")
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        with trio.fail_after(60):
            while system_tasks("flowengine client of"):
                await trio.lowlevel.checkpoint()
            while server.master.statistics()["sessions"]:
                await trio.lowlevel.checkpoint()
        async with fe.Session(g, target=server.target + query) as session:
            with trio.move_on_after(0):
                await session.run("y:0")
            assert await session.run("y:0") == -3


async def test_a_client_that_is_gone_leaves_nothing(tmp_path: Path) -> None:
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
    g.ops.QueueDequeueV2(queue, component_types=["float32"], name="get")
    async with cluster(tmp_path, worker=1) as (servers, query):
        server = servers["/job:worker/task:0"]
        session = fe.Session(g, target=server.target + query)

        async def wait() -> None:
            with pytest.raises(fe.errors.CancelledError, match="closed"):
                await session.run("get:0")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            with trio.fail_after(120):
                while not server.worker.steps_running:
                    await trio.lowlevel.checkpoint()
            await session.close()
        with trio.fail_after(120):
            await server.worker.wait_idle()
            while server.master.statistics()["sessions"]:
                await trio.lowlevel.checkpoint()


async def test_two_clients_share_variables_and_not_graphs(tmp_path: Path) -> None:
    async with cluster(tmp_path, worker=1) as (servers, query):
        target = servers["/job:worker/task:0"].target + query
        graphs = []
        for sign in (1, -1):
            g = fe.Graph()
            v = g.ops.VariableV2(shape=[], dtype="float32", name="v", shared_name="v")
            g.ops.Assign(v, g.constant(np.float32(7)), name="init")
            g.ops.Mul(v, g.constant(np.float32(sign)), name="y")
            graphs.append(g)
        async with fe.Session(graphs[0], target=target) as one, fe.Session(graphs[1], target=target) as two:
            await one.run([], targets=["init"])
            assert (await one.run("y:0"), await two.run("y:0")) == (7, -7)


async def test_a_grown_graph_is_sent_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, worker=1) as (servers, query):
        g = fe.Graph()
        x = g.placeholder("float32", [], name="x")
        g.ops.Neg(x, name="a")
        async with fe.Session(g, target=servers["/job:worker/task:0"].target + query) as session:
            assert await session.run("a:0", {"x:0": 1}) == -1
            g.ops.Add(x, x, name="b")
            assert await session.run("b:0", {"x:0": 1}) == 2
            assert await session.run("a:0", {"x:0": 1}) == -1


async def test_without_the_key_nobody_is_told_anything(tmp_path: Path) -> None:
    g = fe.Graph()
    g.constant(np.float32(1), name="c")
    other = tmp_path / "other.key"
    write_new(other, new_key().hex().encode())
    async with cluster(tmp_path, worker=1) as (servers, _):
        target = servers["/job:worker/task:0"].target
        async with fe.Session(g, target=f"{target}?cluster=test&key_file={other}") as session:
            with pytest.raises(fe.errors.OpError):
                await session.run("c:0")
        with pytest.raises(fe.errors.NotFoundError, match="no key file"):
            fe.Session(g, target=f"{target}?key_file={tmp_path / 'none'}")
    with pytest.raises(fe.errors.InvalidArgumentError, match="colour is not understood"):
        fe.Session(g, target="flow://127.0.0.1:1?colour=red")


async def test_who_is_gone_leaves_neither_sessions_nor_graphs(tmp_path: Path) -> None:
    """A client's sessions end with its connection, and so does what a master has registered elsewhere."""
    g = fe.Graph()
    with g.device("/job:worker/task:1"):
        g.ops.Neg(g.constant(np.float32(3)), name="y")
    async with cluster(tmp_path, worker=2) as (servers, query):
        here, there = servers.values()
        # Who has a name of its own dials.
        async with fe.Session(g, target=f"{here.target}{query}&client=me") as session:
            assert await session.run("y:0") == -3
            assert len(there.worker.graphs) == 1
            link = here.links.open_peer(there.name)
            assert link is not None
            link.fail(fe.errors.UnavailableError("cut"))
            with trio.fail_after(120):
                while len(there.worker.graphs):
                    await trio.lowlevel.checkpoint()
            assert await session.run("y:0") == -3
            assert len(there.worker.graphs) == 1
            assert here.master.statistics()["sessions"] == 1
            client = here.links.open_peer("client-me")
            assert client is not None
            client.fail(fe.errors.UnavailableError("cut"))
            with trio.fail_after(120):
                while here.master.statistics()["sessions"]:
                    await trio.lowlevel.checkpoint()
