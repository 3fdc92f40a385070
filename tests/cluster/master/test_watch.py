"""Steps are looked at now and then, given up where nothing will come any more, else left alone."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from flowengine.cluster import messages as m
from flowengine.cluster.health import LOOK_SECONDS, Patience
from flowengine.cluster.master.watch import Watch
from flowengine.core.errors import UnavailableError

HERE, THERE = (f"/job:worker/task:{number}" for number in range(2))
#: More looks than any of these steps can need.
_LOOKS_MAX = 1000


class Running:
    """A step of two tasks. `stands` says how each of them does: None while it does anything."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.patience = Patience()
        parts = [SimpleNamespace(task=task, incarnation=3) for task in (HERE, THERE)]
        self.plan = SimpleNamespace(parts=parts)
        self.stands: dict[str, m.PartStatus | None] = {HERE: None, THERE: None}


class Watched:
    """A watch, and what it asks of the tasks: `looks` at whom and when, `given_up` with what first."""

    def __init__(self, *steps: Running) -> None:
        self.known = {step.number: step for step in steps}
        self.looks: list[tuple[float, int, str]] = []
        self.given_up: list[tuple[int, str, list[int]]] = []
        self.counted: list[str] = []
        self.lost = False
        worker = SimpleNamespace(
            probe=lambda number: self.probed(number, HERE),
            give_up=lambda number, first: self.end(number, HERE, first),
        )
        members: Any = SimpleNamespace(
            identity=SimpleNamespace(task=HERE),
            worker=worker,
            links=SimpleNamespace(peer=self.peer),
            count=self.counted.append,
        )
        self.watch = Watch(members)
        self.watch.steps.update(steps)  # type: ignore[arg-type]

    def probed(self, number: int, task: str) -> m.PartStatus | None:
        assert len(self.looks) < _LOOKS_MAX
        self.looks.append((trio.current_time(), number, task))
        return self.known[number].stands[task]

    def end(self, number: int, task: str, first: list[int]) -> None:
        self.given_up.append((number, task, first))
        self.known[number].stands[task] = None

    async def peer(self, task: str, incarnation: int) -> Any:
        await trio.lowlevel.checkpoint()
        assert incarnation == 3
        if self.lost:
            raise UnavailableError("gone")

        async def call(method: str, wire: Any) -> Any:
            if method == m.PROBE_STEP:
                found = self.probed(m.ProbeStep.from_wire(wire).step, task)
                return SimpleNamespace(result=None if found is None else found.to_wire())
            asked = m.GiveUp.from_wire(wire)
            self.end(asked.step, task, asked.first)
            return SimpleNamespace(result=None)

        return SimpleNamespace(call=call)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.watch.run)
            yield
            nursery.cancel_scope.cancel()


def at_rest(first: list[int], sent: int = 2, received: int = 2) -> m.PartStatus:
    return m.PartStatus(sent=sent, received=received, first=first)


async def test_a_step_of_which_nothing_will_come_is_given_up_on_every_task(
    autojump_clock: trio.testing.MockClock,
) -> None:
    step, other = Running(4), Running(5)
    step.stands = {HERE: at_rest([1, 7, 0]), THERE: at_rest([0, 9])}
    watched = Watched(step, other)
    async with watched.running():
        await trio.sleep(2.2 * LOOK_SECONDS)
        assert watched.given_up == [(4, HERE, [0, 9]), (4, THERE, [0, 9])], "the outermost comes first"
        assert m.GIVE_UP in watched.counted
        await trio.sleep(1)
        assert not step.patience.is_looked_at, "it was put off when nothing more had happened"
    assert autojump_clock.autojump_threshold == 0


@pytest.mark.parametrize("why", ["busy", "under way", "nothing awaited"])
async def test_a_step_that_may_go_on_is_left_alone_and_looked_at_more_and_more_rarely(
    why: str, autojump_clock: trio.testing.MockClock
) -> None:
    step = Running(4)
    if why == "under way":
        step.stands = {HERE: at_rest([0, 1], sent=3), THERE: at_rest([0, 2])}
    elif why == "nothing awaited":
        step.stands = {HERE: at_rest([]), THERE: at_rest([])}
    watched = Watched(step)
    async with watched.running():
        await trio.sleep(40)
    assert watched.given_up == []
    times = sorted({time for time, _, task in watched.looks if task == HERE})
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert gaps == sorted(gaps)
    assert 1.0 <= gaps[0] < gaps[-1] <= 8.5
    assert autojump_clock.autojump_threshold == 0


async def test_a_step_that_is_over_is_asked_no_more(autojump_clock: trio.testing.MockClock) -> None:
    step = Running(4)
    watched = Watched(step)
    async with watched.running():
        await trio.sleep(2)
        watched.watch.steps.clear()
        seen = len(watched.looks)
        assert seen
        await trio.sleep(20)
        assert len(watched.looks) == seen
    assert autojump_clock.autojump_threshold == 0


async def test_a_task_that_cannot_be_asked_ends_one_look_and_not_the_watch(
    autojump_clock: trio.testing.MockClock,
) -> None:
    step = Running(4)
    step.stands = {HERE: at_rest([0, 1]), THERE: at_rest([0, 2])}
    watched = Watched(step)
    watched.lost = True
    async with watched.running():
        await trio.sleep(3)
        assert watched.looks
        assert watched.given_up == []
        watched.lost = False
        await trio.sleep(10)
        assert {task for _, task, _ in watched.given_up} == {HERE, THERE}
    assert autojump_clock.autojump_threshold == 0
