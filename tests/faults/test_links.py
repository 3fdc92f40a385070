"""Links that are slow, cut or half open, over real sockets: no client waits beyond the bound.

The error says which task was lost on which link. What does not need the link stays usable, and so does what
needs it, once it is whole again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.transport.wire.identity import new_key
from tests.faults.proxy import Proxy, open_proxy
from tests.faults.ticks import within

pytestmark = pytest.mark.slow

#: After this silence a peer is lost.
SILENCE = 0.6
#: What is stated: a twelfth more; and what the machine may take between a loop's ticks.
BOUND = SILENCE * 13 / 12 + 0.6
MASTER, PS, WORKER = "/job:worker/task:0", "/job:ps/task:0", "/job:worker/task:1"


def graph() -> fe.Graph:
    """x goes from the master to the other worker, from there to the PS task, and from there back."""
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device(WORKER):
        far = g.ops.Neg(x, name="far")
    with g.device(PS):
        v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
        g.ops.Assign(v, np.float32(2), name="init")
        product = g.ops.Mul(v, far, name="product")
        g.ops.Identity(v, name="held")
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
        (never,) = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
    with g.device(WORKER):
        waits = g.ops.Neg(never, name="waits")
    with g.device(MASTER):
        g.ops.Identity(product, name="y")
        g.ops.Identity(waits, name="never")
    return g


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())


@dataclass
class Tasks:
    """A running cluster with a proxy on each way that the tests break."""

    session: fe.Session
    servers: tuple[fe.Server, fe.Server, fe.Server]
    to_worker: Proxy
    to_worker_from_ps: Proxy
    to_master: Proxy

    async def check_idle(self) -> None:
        """No task runs a part of a step any more, not even one that nobody hears."""
        for server in self.servers:
            await server.worker.wait_idle()
            await server.master.wait_idle()

    async def check_whole(self) -> None:
        assert await self.session.run("y:0", {"x:0": 3}) == -6

    async def never(self) -> fe.errors.OpError:
        """A step that waits for ever, but for an error."""
        with pytest.raises(fe.errors.OpError) as caught:
            await self.session.run("never:0")
        return caught.value


@asynccontextmanager
async def tasks() -> AsyncIterator[Tasks]:
    ps, master, worker = (f"127.0.0.1:{port}" for port in free_ports(3))
    spec = fe.ClusterSpec.of({"ps": [ps], "worker": [master, worker]})
    config = fe.Config(silence_seconds=SILENCE)
    async with (
        open_proxy(worker) as to_worker,
        open_proxy(worker) as to_worker_from_ps,
        open_proxy(master) as to_master,
        fe.Server(spec, "worker", 1, config=config) as first,
        fe.Server(spec.with_address(WORKER, to_worker_from_ps.address), "ps", 0, config=config) as second,
        fe.Server(spec.with_address(WORKER, to_worker.address), "worker", 0, config=config) as third,
        fe.Session(graph(), target=f"flow://{to_master.address}", config=config) as session,
    ):
        await session.run((), targets=["init"])
        found = Tasks(session, (first, second, third), to_worker, to_worker_from_ps, to_master)
        await found.check_whole()
        yield found


async def test_a_slow_link_only_takes_its_time() -> None:
    async with tasks() as cluster:
        for proxy in (cluster.to_worker, cluster.to_worker_from_ps, cluster.to_master):
            proxy.delay_seconds = 0.05
        for _ in range(3):
            await cluster.check_whole()


async def test_a_cut_link_is_told_at_once_and_made_again() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cut, "to_worker")
        nursery.start_soon(_cut, "to_worker_from_ps")


async def _cut(way: str) -> None:
    async with tasks() as cluster:
        proxy: Proxy = getattr(cluster, way)
        errors: list[fe.errors.OpError] = []

        async def wait() -> None:
            errors.append(await cluster.never())

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.sleep(0.1)
                proxy.cut()
        (error,) = errors
        assert isinstance(error, fe.errors.UnavailableError)
        assert "on the link from" in error.message
        if way == "to_worker":
            # Whichever end of the link spoke first.
            assert MASTER in error.message
            assert WORKER in error.message
            assert error.device is not None
        else:
            assert PS in error.message
            assert WORKER in error.message
        for _ in range(2):
            await cluster.check_whole()


async def test_a_half_open_link_is_found_within_the_bound() -> None:
    async with trio.open_nursery() as nursery:
        for way in ("to_worker", "to_worker_from_ps"):
            for direction in ("to", "from"):
                nursery.start_soon(_half_open, way, direction)


async def _half_open(way: str, direction: str) -> None:
    async with tasks() as cluster:
        proxy: Proxy = getattr(cluster, way)
        setattr(proxy, f"swallows_{direction}_task", True)
        with trio.fail_after(120), within(BOUND):
            error = await cluster.never()
        assert isinstance(error, fe.errors.UnavailableError | fe.errors.AbortedError)
        with trio.fail_after(120), within(BOUND):
            await cluster.check_idle()
        assert WORKER in error.message
        assert (MASTER if way == "to_worker" else PS) in error.message
        # What does not need the link goes on; what does says so, within the bound for connecting.
        with trio.fail_after(120), within(SILENCE):
            assert await cluster.session.run("held:0") == 2
        with trio.fail_after(120), pytest.raises(fe.errors.OpError, match=WORKER), within(4 * BOUND):
            await cluster.session.run("y:0", {"x:0": 3})
        setattr(proxy, f"swallows_{direction}_task", False)
        with trio.fail_after(120):
            while True:
                # The other end may not know yet that the old connection is gone.
                try:
                    await cluster.check_whole()
                    break
                except fe.errors.UnavailableError:
                    await trio.lowlevel.checkpoint()
        await cluster.check_whole()


async def test_a_client_does_not_wait_for_a_master_that_is_silent() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_silent_master, "to")
        nursery.start_soon(_silent_master, "from")


async def _silent_master(direction: str) -> None:
    async with tasks() as cluster:
        setattr(cluster.to_master, f"swallows_{direction}_task", True)
        with trio.fail_after(120), within(BOUND):
            error = await cluster.never()
        assert isinstance(error, fe.errors.UnavailableError)
        assert MASTER in error.message
        with trio.fail_after(120), within(BOUND):
            await cluster.check_idle()
        with (
            trio.fail_after(120),
            within(BOUND),
            pytest.raises(fe.errors.UnavailableError, match=cluster.to_master.address),
        ):
            await cluster.session.run("held:0")
        setattr(cluster.to_master, f"swallows_{direction}_task", False)
        await cluster.check_whole()


async def test_a_session_that_is_told_to_misses_what_was_lost() -> None:
    async with tasks() as cluster:
        config = fe.Config(silence_seconds=SILENCE, abort_on_restart=True)
        async with fe.Session(
            graph(), target=f"flow://{cluster.to_master.address}", config=config
        ) as session:
            assert await session.run("held:0") == 2
            cluster.to_master.cut()
            await trio.testing.wait_all_tasks_blocked(0.01)
            for _ in range(2):
                with pytest.raises(fe.errors.OpError) as caught:
                    await session.run("held:0")
                assert isinstance(caught.value, fe.errors.AbortedError | fe.errors.UnavailableError)
        await cluster.check_whole()


async def test_a_late_tick_counts_as_one(autojump_clock: trio.testing.MockClock) -> None:
    with within(1):
        await trio.sleep(0.9)
        autojump_clock.jump(100)
    with pytest.raises(AssertionError), within(1):
        await trio.sleep(1.1)
