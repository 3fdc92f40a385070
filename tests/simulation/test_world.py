"""Worlds: what a crash takes and leaves, how a simulation ends, and what is a fault of the engine."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.testing.simulation.hosts import Death
from flowengine.testing.simulation.outcomes import EngineFault, Hang
from flowengine.testing.simulation.world import World, simulate


def _graph() -> fe.Graph:
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        total = g.ops.VariableV2(shape=[], dtype="float32", name="total")
        g.ops.Assign(total, g.constant(np.float32(0)), name="init")
        g.ops.AssignAdd(total, g.placeholder("float32", [], name="x"), name="add")
    return g


@pytest.mark.parametrize("death", list(Death))
def test_a_crash_takes_memory_and_leaves_the_disk(death: Death) -> None:
    async def main(world: World) -> None:
        async def client() -> None:
            async with world.session(_graph(), "/job:worker/task:0") as session:
                await session.run([], targets=["init"])
                assert await session.run("add:0", {"x:0": 2}) == 2
                before = world.servers["/job:ps/task:0"].identity.incarnation
                (world.disk / "kept").write_text("still here")
                await world.crash("ps0", death)
                with pytest.raises(fe.errors.OpError, match="ps"):
                    await session.run("add:0", {"x:0": 2})
                await world.restart("ps0")
                assert world.servers["/job:ps/task:0"].identity.incarnation != before
                with pytest.raises(fe.errors.FailedPreconditionError, match="uninitialized value total"):
                    await session.run("add:0", {"x:0": 2})
                assert (world.disk / "kept").read_text() == "still here"

        await world.run_client("client", client)

    world = simulate(main, seed=3, jobs={"ps": 1, "worker": 1})
    assert world.host("/job:ps/task:0").lives == 2


def test_tasks_that_live_are_left_alone() -> None:
    async def main(world: World) -> None:
        await world.restart("/job:ps/task:0")
        await world.restart("nobody")
        assert world.host("ps0").lives == 1

    with pytest.raises(KeyError, match="nobody"):
        simulate(main, seed=1, jobs={"ps": 1})


def test_what_does_not_end_is_a_hang() -> None:
    async def main(world: World) -> None:
        world.log.add("me", "waits")
        await trio.sleep_forever()

    with pytest.raises(Hang, match="seed 8: no end within 50 simulated seconds") as caught:
        simulate(main, seed=8, jobs={"ps": 1}, seconds_max=50.0)
    assert caught.value.log is not None
    assert "me waits" in caught.value.log.text()


def test_what_main_raises_comes_by_itself() -> None:
    async def main(world: World) -> None:
        async with trio.open_nursery():
            raise ZeroDivisionError("as it is")

    with pytest.raises(ZeroDivisionError, match="as it is"):
        simulate(main, seed=1, jobs={"ps": 1})


def test_what_the_engine_logs_as_its_own_fault_fails_a_simulation() -> None:
    async def main(world: World) -> None:
        logging.getLogger("flowengine.transport").warning("what may be")
        logging.getLogger("flowengine.transport").error("what may not be")

    with pytest.raises(EngineFault, match=r"flowengine\.transport: what may not be"):
        simulate(main, seed=1, jobs={"ps": 1})


def test_a_program_ends_with_its_error() -> None:
    async def main(world: World) -> None:
        async def client() -> None:
            async with world.session(_graph(), "/job:worker/task:0") as session:
                await session.run("nothing:0")

        with pytest.raises(fe.errors.OpError, match="nothing"):
            await world.run_client("client", client)

    simulate(main, seed=1, jobs={"ps": 1, "worker": 1})


def test_simulated_time_costs_none() -> None:
    async def main(world: World) -> None:
        await trio.sleep(600)

    world = simulate(main, seed=1, jobs={"ps": 2, "worker": 2}, seconds_max=1e3)
    assert [entry.seconds for entry in world.log if entry.what == "the end"] == [600]
