"""Notices of steps and plans that are over, for tasks that do not know it yet."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.ids import Endings
from flowengine.cluster.master.members import Members
from flowengine.cluster.master.plans import MasterPlan
from flowengine.core.errors import OpError

logger: Final = logging.getLogger("flowengine.cluster")

#: The next message to a task reports ended steps; if none is sent for so long, a message of their own does.
_NOTIFY_SECONDS: Final = 1.0


class Notices:
    """The notices of one master to the tasks of its cluster."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._here = members.identity.task
        self._endings: dict[str, Endings] = {}
        self._handles: dict[str, list[int]] = {}
        self._sessions: dict[str, list[int]] = {}
        self._has_notice = trio.Event()

    def step_ended(self, plan: MasterPlan, number: int) -> None:
        """Record that a step is over on every task."""
        here, known = self._here, self._endings
        for part in plan.parts:
            task = part.task
            if task == here:
                self._members.worker.exchange.end_step(number)
                continue
            endings = known.get(task)
            if endings is None:
                endings = known[task] = Endings()
            endings.numbers.append(number)
        if not self._has_notice.is_set() and any(part.task != here for part in plan.parts):
            self._has_notice.set()

    def plan_dropped(self, plan: MasterPlan) -> None:
        """Record that a plan is not run any more."""
        for part in plan.parts:
            self._handles.setdefault(part.task, []).append(plan.handle)
        self._has_notice.set()

    def session_ended(self, number: int, tasks: Iterable[str]) -> None:
        """Record that a session is over: these tasks may hold state of it."""
        for task in tasks:
            self._sessions.setdefault(task, []).append(number)
        self._has_notice.set()

    def take_steps(self, task: str) -> list[int]:
        """Return the ended steps that the next message to a task reports."""
        endings = self._endings.get(task)
        return endings.take() if endings is not None and endings.numbers else []

    async def run(self) -> None:
        """Tell tasks which steps and plans are over if no other message does. Runs until cancelled."""
        while True:
            await self._has_notice.wait()
            await trio.sleep(_NOTIFY_SECONDS)
            self._has_notice = trio.Event()
            for task in dict.fromkeys((*self._endings, *self._handles, *self._sessions)):
                await self.notify(task)

    async def notify(self, task: str) -> None:
        """Send the notices of one task now."""
        handles, sessions = self._handles.pop(task, []), self._sessions.pop(task, [])
        if task == self._here:
            self._members.worker.deregister(self._members.registrar, handles, sessions)
            return
        peer = self._members.links.open_peer(task)
        if peer is None:
            # A task that restarts has forgotten them anyway.
            self._endings.pop(task, None)
            return
        try:
            if steps := self.take_steps(task):
                await peer.call(m.END_STEPS, m.EndSteps(steps).to_wire())
            if handles or sessions:
                await peer.call(m.DEREGISTER_GRAPHS, m.DeregisterGraphs(handles, sessions).to_wire())
        except OpError as error:
            logger.debug("%s was not told what is over: %s", task, error.message)


__all__ = ["Notices"]
