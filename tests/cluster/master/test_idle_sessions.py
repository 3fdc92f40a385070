"""A session's end waits for its steps: for all of them, and no longer."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

import flowengine as fe
from flowengine.cluster.master.sessions import ClusterSession
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
