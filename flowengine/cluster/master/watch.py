"""Checks of steps that run over several tasks: do they wait for tensors that no task will send?"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Final

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.concurrent_calls import together
from flowengine.cluster.health import LOOK_SECONDS, first_in_vain
from flowengine.cluster.master.members import Members
from flowengine.cluster.master.plans import TaskPart
from flowengine.cluster.master.steps import MasterStep
from flowengine.core.errors import OpError

logger: Final = logging.getLogger("flowengine.cluster")


class Watch:
    """A periodic check of `steps`: those of one master whose tasks wait for each other's tensors."""

    def __init__(self, members: Members) -> None:
        self.steps: set[MasterStep] = set()
        self._members = members

    async def run(self) -> None:
        """Find steps that can never continue. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(LOOK_SECONDS)
                now = trio.current_time()
                for step in self.steps:
                    if step.patience.is_due(now):
                        step.patience.is_looked_at = True
                        nursery.start_soon(self.look_at, step)

    async def look_at(self, step: MasterStep) -> None:
        """Check one step; check again while the step is given something to do."""
        parts = step.plan.parts

        async def ask(index: int) -> m.PartStatus | None:
            if step not in self.steps:
                return None
            answer = await self._ask(parts[index], m.PROBE_STEP, m.ProbeStep(step.number))
            return None if answer is None else m.PartStatus.from_wire(answer)

        try:
            while step in self.steps:
                first = await first_in_vain(len(parts), ask)
                if first is not None:
                    message = m.GiveUp(step.number, first)
                    await together(partial(self._ask, part, m.GIVE_UP, message) for part in parts)
                    step.patience.something_happened()
                elif not await step.patience.wait():
                    break
        except OpError as error:
            # The part of the step that waits for a lost task finds the loss.
            logger.debug("step %d was not looked at: %s", step.number, error.message)
            await step.patience.wait()
        finally:
            step.patience.is_looked_at = False

    async def _ask(self, part: TaskPart, method: str, message: m.ProbeStep | m.GiveUp) -> Any:
        if part.task == self._members.identity.task:
            if isinstance(message, m.GiveUp):
                return self._members.worker.give_up(message.step, message.first)
            standing = self._members.worker.probe(message.step)
            return None if standing is None else standing.to_wire()
        self._members.count(method)
        peer = await self._members.links.peer(part.task, part.incarnation)
        return (await peer.call(method, message.to_wire())).result


__all__ = ["Watch"]
