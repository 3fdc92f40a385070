"""Steps over tasks that wait for what nobody will send: found, and ended as on one machine."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.cluster import health
from flowengine.cluster.health import first_in_vain
from flowengine.cluster.local import free_ports
from flowengine.cluster.master import watch
from flowengine.cluster.messages import PartStatus
from flowengine.transport.wire.identity import new_key
from tests.effort import examples


@asynccontextmanager
async def two_tasks(graph: fe.Graph) -> AsyncIterator[tuple[fe.Session, fe.Server]]:
    """A session whose nodes called "far..." are on another task than the others."""
    spec = fe.ClusterSpec.of({"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]})
    config = fe.Config(place={"*": "/job:worker/task:0", "far*": "/job:worker/task:1"})
    key = new_key()
    async with fe.Server(spec, "worker", 0, key=key) as master, fe.Server(spec, "worker", 1, key=key):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLOWENGINE_CLUSTER_KEY", key.hex())
            async with fe.Session(graph, target=master.target, config=config) as session:
                yield session, master


@pytest.fixture(autouse=True)
def look_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (health, watch):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)


def loop(iterations: int) -> fe.Graph:
    """Of two loop variables one is dead from the start if x: from iteration 1 on it is nowhere."""
    g = fe.Graph()
    x = g.placeholder("bool", [], name="x")
    dead = g.ops.Switch(g.constant(5), x)[0]
    frame: dict[str, Any] = {"frame_name": "loop"}
    i = g.ops.Merge([g.ops.Enter(g.constant(0), **frame)] * 2).output
    other = g.ops.Merge([g.ops.Enter(dead, **frame)] * 2).output
    goes_on = g.ops.LoopCond(
        g.ops.Less(i, g.ops.Enter(g.constant(iterations), is_constant=True, **frame)), name="goes_on"
    )
    again, over = g.ops.Switch(i, goes_on)[1], g.ops.Switch(i, goes_on)[0]
    lost, kept = g.ops.Switch(other, goes_on)
    far = g.ops.Neg(kept, name="far")
    near = g.ops.Neg(far, name="near")
    g.set_back_edge(
        i, 1, g.ops.NextIteration(g.ops.Add(again, g.ops.Enter(g.constant(1), is_constant=True, **frame)))
    )
    g.set_back_edge(other, 1, g.ops.NextIteration(near))
    g.ops.Exit(over, name="out")
    g.ops.Exit(lost, name="lost")
    return g


async def test_a_loop_without_one_of_its_variables() -> None:
    async with two_tasks(loop(30)) as (session, server):
        with trio.fail_after(120):
            assert await session.run("out:0", {"x:0": False}, targets=["near"]) == 30
            for _ in range(2):
                assert await session.run("out:0", {"x:0": True}, targets=["near"]) == 30
        # Of both tasks it is asked twice for each iteration, and now and then in vain.
        assert 2 * 30 <= server.master.messages["probe_step"] <= 1000
        assert 2 * 28 <= server.master.messages["give_up"] <= 2 * 30


async def test_the_error_is_that_of_one_machine() -> None:
    errors = []
    async with fe.Session(loop(3)) as session:
        assert await session.run("lost:0", {"x:0": False}) == 5
        with pytest.raises(fe.errors.OpError) as caught:
            await session.run("lost:0", {"x:0": True})
        errors.append(caught.value)
    async with two_tasks(loop(3)) as (session, _):
        assert await session.run("lost:0", {"x:0": False}) == 5
        with trio.fail_after(120), pytest.raises(fe.errors.OpError) as caught:
            await session.run("lost:0", {"x:0": True})
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert errors[0].message == errors[1].message


async def test_whoever_waits_for_something_else_is_left_alone() -> None:
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="far_queue")
    g.ops.QueueEnqueueV2(queue, [g.constant(2.0)], name="far_put")
    (taken,) = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="far_take")
    g.ops.Neg(taken, name="y")
    async with two_tasks(g) as (session, server):

        async def put_late() -> None:
            with trio.fail_after(120):
                while not server.master.watch.steps:
                    await trio.lowlevel.checkpoint()
                (step,) = server.master.watch.steps
                while server.master.messages.get("probe_step", 0) < 3:
                    await trio.lowlevel.checkpoint()
                    await server.master.watch.look_at(step)
            await session.run((), targets=["far_put"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(put_late)
            assert await session.run("y:0") == -2
        assert server.master.messages["probe_step"] >= 3
        assert "give_up" not in server.master.messages


class Model:
    """Tasks that send to each other while they do something, and fall asleep; a message wakes one."""

    def __init__(self, tasks: int, chance: random.Random) -> None:
        self.chance = chance
        self.is_awake = [chance.random() < 0.7 for _ in range(tasks)]
        self.sent = [0] * tasks
        self.received = [0] * tasks
        self.under_way: list[int] = []
        self.energy = chance.randrange(30)

    @property
    def is_at_rest(self) -> bool:
        return not any(self.is_awake) and not self.under_way

    def happen(self) -> None:
        """One thing that can happen."""
        task = self.chance.randrange(len(self.is_awake))
        if self.under_way and self.chance.random() < 0.4:
            target = self.under_way.pop(self.chance.randrange(len(self.under_way)))
            self.received[target] += 1
            self.is_awake[target] = True
        elif self.is_awake[task]:
            if self.energy and self.chance.random() < 0.7:
                self.energy -= 1
                self.sent[task] += 1
                self.under_way.append(self.chance.randrange(len(self.is_awake)))
            else:
                self.is_awake[task] = False

    async def ask(self, index: int) -> PartStatus | None:
        for _ in range(self.chance.randrange(6)):
            self.happen()
        if self.is_awake[index]:
            return None
        standing = PartStatus(self.sent[index], self.received[index], [-1, index])
        for _ in range(self.chance.randrange(6)):
            self.happen()
        return standing


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(1, 5), st.integers(0, 1 << 30))
def test_only_what_has_come_to_rest_is_found_at_rest(tasks: int, seed: int) -> None:
    model = Model(tasks, random.Random(seed))

    async def main() -> None:
        looks = 0
        while await first_in_vain(tasks, model.ask) is None:
            looks += 1
            assert looks < 10_000, "it is never found"
        assert model.is_at_rest
        assert await first_in_vain(tasks, model.ask) == [-1, 0]

    trio.run(main)


@pytest.mark.parametrize(
    ("rounds", "found"),
    [
        # Each slept when it was asked, and the sums of a round are equal; yet messages crossed meanwhile.
        ([[(0, 0), (1, 1)], [(2, 1), (1, 1)]], False),
        ([[(0, 0), (1, 1)], [(1, 1), (1, 1)]], False),
        # Something is under way all the time.
        ([[(2, 0), (0, 1)], [(2, 0), (0, 1)]], False),
        ([[(2, 0), (0, 2)], [(2, 0), (0, 2)]], True),
    ],
)
async def test_the_counters_of_two_rounds_are_compared(
    rounds: list[list[tuple[int, int]]], found: bool
) -> None:
    asked = [0, 0]

    async def ask(index: int) -> PartStatus:
        sent, received = rounds[asked[index]][index]
        asked[index] += 1
        return PartStatus(sent, received, [-1, index])

    assert await first_in_vain(2, ask) == ([-1, 0] if found else None)
