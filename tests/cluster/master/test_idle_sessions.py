"""A session's end waits for its steps: for all of them, and no longer."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

import flowengine as fe
from flowengine.cluster.master.master import Master
from flowengine.cluster.master.sessions import ClusterSession
from flowengine.core.config import Config
from flowengine.transport.wire.identity import Identity


async def test_who_waits_for_a_session_goes_on_when_its_last_step_is_over() -> None:
    settings: Any = None
    session = ClusterSession(1, Identity("client", "cluster", "/job:c/task:0", 1), fe.Graph(), settings)
    await session.wait_idle()
    steps: Any = [object(), object()]
    first, last = steps
    session.running.update(steps)
    idle: list[int] = []

    async def wait(number: int) -> None:
        await session.wait_idle()
        idle.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(2):
            nursery.start_soon(wait, number)
        await trio.testing.wait_all_tasks_blocked()
        session.step_ended(first)
        await trio.testing.wait_all_tasks_blocked()
        assert not idle
        session.step_ended(last)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(idle) == [0, 1]
        nursery.cancel_scope.cancel()


class Slow:
    """A step that takes its time to end when it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


async def test_a_master_is_busy_until_the_steps_of_closed_sessions_are_over_too() -> None:
    other: Any = None
    owner = Identity("client", "cluster", "/job:c/task:0", 1)
    idle: list[bool] = []
    async with trio.open_nursery() as nursery:
        master = Master(identity=owner, worker=other, links=other, kernels=other, nursery=nursery)
        await master.wait_idle()
        sessions = [master.create_session(owner, fe.Graph(), Config()) for _ in range(2)]
        steps = [Slow(), Slow()]
        for session, step in zip(sessions, steps, strict=True):
            session.running.add(step)

        async def wait() -> None:
            await master.wait_idle()
            idle.append(True)

        master.close_session(sessions[0])
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        sessions[1].step_ended(steps[1])
        await trio.testing.wait_all_tasks_blocked()
        assert not idle
        assert [step.cancelled for step in steps] == [1, 0]
        sessions[0].step_ended(steps[0])
        await trio.testing.wait_all_tasks_blocked()
        assert idle
