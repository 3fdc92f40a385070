"""Notices of ended steps, plans and sessions to tasks that took part: with a message, or after a second."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from flowengine.cluster import messages as m
from flowengine.cluster.master.notices import Notices
from flowengine.core.errors import UnavailableError

HERE, THERE, ELSEWHERE = (f"/job:worker/task:{number}" for number in range(3))


class Told:
    """The tasks that a master's notices reach: its own and two others, of which each may be gone."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.gone: set[str] = set()
        self.refuses: set[str] = set()
        worker = SimpleNamespace(
            exchange=SimpleNamespace(end_step=lambda number: self.note(HERE, "end", number)),
            deregister=lambda registrar, handles, sessions: self.note(HERE, registrar, (handles, sessions)),
        )
        members: Any = SimpleNamespace(
            identity=SimpleNamespace(task=HERE),
            worker=worker,
            registrar="own",
            links=SimpleNamespace(open_peer=self.peer),
        )
        self.notices = Notices(members)

    def note(self, task: str, what: str, arguments: Any) -> None:
        self.calls.append((task, what, arguments))

    def peer(self, task: str) -> Any:
        if task in self.gone:
            return None

        async def call(method: str, arguments: Any) -> None:
            await trio.lowlevel.checkpoint()
            if task in self.refuses:
                raise UnavailableError("gone meanwhile")
            self.note(task, method, arguments)

        return SimpleNamespace(call=call)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.notices.run)
            yield
            nursery.cancel_scope.cancel()


def plan(*tasks: str, handle: int = 7) -> Any:
    return SimpleNamespace(parts=[SimpleNamespace(task=task) for task in tasks], handle=handle)


def test_each_task_of_a_step_is_told_of_it_once() -> None:
    told = Told()
    for number in (4, 5, 9):
        told.notices.step_ended(plan(HERE, THERE), number)
    told.notices.step_ended(plan(ELSEWHERE), 6)
    assert told.calls == [(HERE, "end", 4), (HERE, "end", 5), (HERE, "end", 9)]
    assert told.notices.take_steps(THERE) == [4, 5, 9, 9]
    assert told.notices.take_steps(THERE) == []
    assert told.notices.take_steps(ELSEWHERE) == [6, 6]
    assert told.notices.take_steps(HERE) == []


async def test_what_no_message_carries_is_told_after_a_second(autojump_clock: trio.testing.MockClock) -> None:
    told = Told()
    steps, gone = m.EndSteps([4, 4]).to_wire(), m.DeregisterGraphs([7], [3]).to_wire()
    async with told.running():
        await trio.sleep(10)
        told.notices.step_ended(plan(THERE), 4)
        await trio.sleep(0.9)
        assert told.calls == []
        await trio.sleep(0.2)
        assert told.calls == [(THERE, m.END_STEPS, steps)]
        told.notices.plan_dropped(plan(HERE, THERE))
        told.notices.session_ended(3, [THERE])
        await trio.sleep(1.1)
        assert told.calls[1:] == [(THERE, m.DEREGISTER_GRAPHS, gone), (HERE, "own", ([7], []))]
        await trio.sleep(10)
        assert len(told.calls) == 3, "nothing is told twice"
    assert autojump_clock.autojump_threshold == 0


@pytest.mark.parametrize("what", ["step", "plan", "session"])
async def test_what_is_over_while_others_are_told_is_told_next(
    what: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Also where no message and no other end follows it."""
    told = Told()
    peer = told.peer

    def telling(task: str) -> Any:
        if len(told.calls) == 1:
            # The task was told of the first, and is not asked again in this round.
            if what == "step":
                told.notices.step_ended(plan(THERE), 5)
            elif what == "plan":
                told.notices.plan_dropped(plan(THERE))
            else:
                told.notices.session_ended(3, [THERE])
        return peer(task)

    told.notices._members.links.open_peer = telling  # type: ignore[method-assign]
    async with told.running():
        told.notices.step_ended(plan(THERE, ELSEWHERE), 4)
        await trio.sleep(1.5)
        assert [task for task, _, _ in told.calls] == [THERE, ELSEWHERE]
        await trio.sleep(1)
        assert [task for task, _, _ in told.calls] == [THERE, ELSEWHERE, THERE]
    assert autojump_clock.autojump_threshold == 0


@pytest.mark.parametrize("what", ["step", "plan", "session"])
async def test_each_kind_of_notice_wakes_by_itself(what: str, autojump_clock: trio.testing.MockClock) -> None:
    told = Told()
    async with told.running():
        await trio.testing.wait_all_tasks_blocked()
        if what == "step":
            told.notices.step_ended(plan(HERE, THERE), 4)
        elif what == "plan":
            told.notices.plan_dropped(plan(THERE))
        else:
            told.notices.session_ended(3, [THERE])
        await trio.sleep(2)
        assert [task for task, _, _ in told.calls].count(THERE) == 1
    assert autojump_clock.autojump_threshold == 0


async def test_who_is_gone_is_told_nothing_and_keeps_nobody_waiting(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told = Told()
    told.gone.add(THERE)
    async with told.running():
        told.notices.step_ended(plan(THERE, ELSEWHERE), 4)
        await trio.sleep(2)
        assert told.calls == [(ELSEWHERE, m.END_STEPS, m.EndSteps([4, 4]).to_wire())]
        told.gone.clear()
        assert told.notices.take_steps(THERE) == [], "another life knows nothing of it"
        told.refuses.add(THERE)
        told.notices.session_ended(3, [THERE, ELSEWHERE])
        await trio.sleep(2)
        assert [task for task, _, _ in told.calls[1:]] == [ELSEWHERE]
    assert autojump_clock.autojump_threshold == 0
