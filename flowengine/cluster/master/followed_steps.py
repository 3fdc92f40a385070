"""The followed steps of a master: it tells their tasks before a step begins and takes the parts after it."""

from __future__ import annotations

from functools import partial
from typing import Any

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.concurrent_calls import together
from flowengine.cluster.following import known_to
from flowengine.cluster.master.members import Members
from flowengine.cluster.master.plans import MasterPlan, TaskPart
from flowengine.core.arrays import Value
from flowengine.core.errors import OpError
from flowengine.runtime.tracing.clock_alignment import NO_OFFSET, ClockOffset, aligned


class FollowedStep:
    """A step that is traced or guarded.

    began     its start, by the master's clock
    offsets   {task: the offset of its clock from the master's}
    parts     its parts, once the master has asked their tasks to follow it
    number    of the step
    """

    def __init__(self) -> None:
        self.began = 0.0
        self.offsets: dict[str, ClockOffset] = {}
        self.parts: list[TaskPart] = []
        self.number = 0
        self.has_ended = trio.Event()


class FollowedSteps:
    """Follows steps at the tasks of a master's cluster."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._here = members.identity.task

    @property
    def clock(self) -> float:
        """Return the time of the master's clock."""
        return self._members.worker.followed.clock()

    async def announce(
        self, step: FollowedStep, options: dict[str, Any], plan: MasterPlan, number: int
    ) -> None:
        """Tell the tasks of a step that it is about to begin, and align their clocks with the master's.

        Raises UnimplementedError that names a task which knows no such steps, the errors of `Links.peer` for
        one that is gone, and InvalidArgumentError for unreadable options.
        """
        step.number, step.parts = number, list(plan.parts)
        message = m.FollowStep(plan.session, number, options)
        await together(partial(self._tell, step, part, message) for part in plan.parts)
        step.began = self.clock

    async def _tell(self, step: FollowedStep, part: TaskPart, message: m.FollowStep) -> None:
        members = self._members
        if part.task == self._here:
            members.worker.followed.announce(members.registrar, message)
            step.offsets[part.task] = NO_OFFSET
            return
        peer = await members.links.peer(part.task, part.incarnation)
        call = partial(members.call, peer, devices=part.devices)
        await known_to(part.task, partial(call, m.FOLLOW_STEP, message.to_wire()))
        if not message.options["trace"]:
            step.offsets[part.task] = NO_OFFSET
            return

        async def read() -> float:
            return float((await call(m.READ_CLOCK)).result)

        step.offsets[part.task] = await aligned(read, lambda: self.clock)

    async def take(self, step: FollowedStep, seconds: float) -> tuple[dict[str, Any], list[Value]]:
        """Return {task: its part, as a table}, and the chunks and values of all, after the step.

        seconds   how long a part that has not ended is waited for
        """
        with trio.move_on_after(seconds):
            await step.has_ended.wait()
        found: dict[str, tuple[m.TracePart, list[Value]]] = {}
        await together(partial(self._take, step, part, seconds, found) for part in step.parts)
        table: dict[str, Any] = {}
        tensors: list[Value] = []
        for part in step.parts:
            mine, values = found[part.task]
            offset = step.offsets.get(part.task, NO_OFFSET)
            table[part.task] = {"part": mine.to_wire(), "clock": list(offset)}
            tensors += values
        return {"began": step.began, "parts": table}, tensors

    async def _take(
        self,
        step: FollowedStep,
        part: TaskPart,
        seconds: float,
        found: dict[str, tuple[m.TracePart, list[Value]]],
    ) -> None:
        members, message = self._members, m.TakePart(step.number, seconds)
        try:
            if part.task == self._here:
                found[part.task] = await members.worker.followed.take(members.registrar, message)
                return
            peer = members.links.open_peer(part.task)
            if peer is None or peer.identity.incarnation != part.incarnation:
                found[part.task] = _without_events("lost: the connection has ended"), []
                return
            reply = await members.call(peer, m.TAKE_PART, message.to_wire())
            mine = m.TracePart.from_wire(reply.result)
            found[part.task] = mine, list(reply.tensors)
        except OpError as error:
            found[part.task] = _without_events(f"lost: {error.message}"), []


def _without_events(outcome: str) -> m.TracePart:
    return m.TracePart(outcome=outcome, began=0.0, dropped=0, chunks=0, has_values=False)


__all__ = ["FollowedStep", "FollowedSteps"]
