"""Traces over simulated tasks: clocks that are off are aligned over slow links; crashes leave the rest."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.cluster import messages as m
from flowengine.runtime.tracing.clock_alignment import ClockOffset, aligned
from flowengine.testing.simulation.hosts import Death
from flowengine.testing.simulation.world import World, simulate
from flowengine.transport.peer import Peer
from tests.effort import examples

MASTER = "/job:worker/task:0"
JOBS = {"ps": 2, "worker": 2}


def _graph() -> fe.Graph:
    """y = (w0 + w1) + x, where the sum is a worker's and each variable a parameter server's."""
    g = fe.Graph()
    weights = []
    for task in range(2):
        with g.device(f"/job:ps/task:{task}"):
            w = g.ops.VariableV2(shape=[], dtype="float32", name=f"w{task}")
            g.ops.Assign(w, g.constant(np.float32(task + 1)), name=f"init{task}")
            weights.append(w)
    with g.device("/job:worker/task:1"):
        total = g.ops.Add(*weights, name="total")
    with g.device("/job:ps/task:1"):
        g.ops.Add(total, g.placeholder("float32", [], name="x"), name="y")
    return g


def _now(offset: float) -> float:
    return trio.current_time() + offset


@settings(max_examples=examples(50))
@given(seed=st.integers(0, 10_000), offsets=st.lists(st.floats(-1e5, 1e5), min_size=4, max_size=4))
def test_clocks_are_aligned_over_simulated_links(seed: int, offsets: list[float]) -> None:
    """The links take their time each way, as they like; clocks are the simulation's, and off."""

    async def main(world: World) -> None:
        async def client() -> None:
            for server, offset in zip(world.servers.values(), offsets, strict=True):
                server.worker.followed.clock = partial(_now, offset)
            mine = world.servers[MASTER].worker.followed.clock
            here = offsets[[*world.servers].index(MASTER)]
            for (task, _), offset in zip([*world.servers.items()], offsets, strict=True):
                if task == MASTER:
                    continue
                peer = await world.servers[MASTER].links.peer(task)

                async def read(peer: Peer = peer) -> float:
                    return float((await peer.call(m.READ_CLOCK)).result)

                found: ClockOffset = await aligned(read, mine)
                assert found.error > 0
                assert abs(found.seconds - (offset - here)) <= found.error + 1e-6

        await world.on(MASTER, client)

    simulate(main, seed=seed, jobs=JOBS)


@settings(max_examples=examples(50))
@given(seed=st.integers(0, 10_000), offsets=st.lists(st.floats(-1e5, 1e5), min_size=4, max_size=4))
def test_a_traced_step_is_as_an_untraced_one(seed: int, offsets: list[float]) -> None:
    async def main(world: World) -> None:
        async def client() -> None:
            for server, offset in zip(world.servers.values(), offsets, strict=True):
                server.worker.followed.clock = partial(_now, offset)
            async with world.session(_graph(), MASTER) as session:
                await session.run([], targets=["init0", "init1"])
                plain = await session.run("y:0", {"x:0": 4})
                for level in ("blocks", "nodes"):
                    metadata = fe.RunMetadata()
                    options = fe.RunOptions(trace=level)
                    value = await session.run("y:0", {"x:0": 4}, options=options, run_metadata=metadata)
                    assert value == plain == 7
                    _hold_together(metadata)
                    for task, offset in zip(world.servers, offsets, strict=True):
                        if task in metadata.traced_tasks:
                            part = metadata.traced_tasks[task]
                            assert part.outcome == "ended"
                            assert abs(part.clock_offset - offset) <= part.clock_error + 1e-6
                guarded = await session.run("y:0", {"x:0": 4}, options=fe.RunOptions(guard=True))
                assert guarded == plain

        await world.run_client("client", client)
        assert not any(server.worker.followed for server in world.servers.values())

    simulate(main, seed=seed, jobs=JOBS)


def _hold_together(metadata: fe.RunMetadata) -> None:
    """Each Recv has its Send, and does not end before it by more than the stated errors."""
    error = 2 * max(part.clock_error for part in metadata.traced_tasks.values()) + 1e-6
    sends = {
        (each.detail["edge"], each.detail["to"]): each for each in metadata.events if each.kind == "send"
    }
    receives = [each for each in metadata.events if each.kind == "recv"]
    assert len(receives) >= 3
    for each in receives:
        assert each.ended >= sends[each.detail["edge"], each.device].began - error


@pytest.mark.parametrize(
    ("death", "victim"), [*itertools.product(Death, ["/job:ps/task:0", "/job:worker/task:1"])], ids=str
)
def test_a_crash_leaves_the_parts_of_the_others(death: Death, victim: str) -> None:
    """A task crashes while the step waits for a queue: the others' parts come back, and its own is lost."""
    g = fe.Graph()
    with g.device("/job:ps/task:1"):
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="slow")
        item = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="item")[0]
    with g.device(victim):
        g.ops.Add(item, g.ops.Neg(g.placeholder("float32", [], name="x"), name="quick"), name="late")

    async def main(world: World) -> None:
        async def client() -> None:
            async with world.session(g, MASTER) as session, trio.open_nursery() as nursery:
                metadata = fe.RunMetadata()

                async def crash() -> None:
                    await trio.sleep(60)
                    assert world.servers[victim].worker.steps_running
                    await world.crash(victim, death)

                nursery.start_soon(crash)
                options = fe.RunOptions(trace="nodes")
                with pytest.raises(fe.errors.OpError):
                    await session.run("late:0", {"x:0": 1}, options=options, run_metadata=metadata)
                assert metadata.traced_tasks[victim].outcome.startswith("lost: ")
                other = metadata.traced_tasks["/job:ps/task:1"]
                assert other.outcome == "cancelled" or other.outcome.startswith("failed: ")
                assert other.events
                nursery.cancel_scope.cancel()

        await world.run_client("client", client)

    simulate(main, seed=11, jobs=JOBS)
