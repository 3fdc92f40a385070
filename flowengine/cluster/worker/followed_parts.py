"""The parts of steps that a master wants traced or guarded, kept with their task until the master takes them.

FollowStep ──► announced ──► begun ──► ended ──► TakePart, or the end of the session or the master
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final

from flowengine.cluster import messages as m
from flowengine.cluster.followed_part import FollowedPart
from flowengine.cluster.worker.registered_partitions import Registrar
from flowengine.core.arrays import Value
from flowengine.core.errors import FailedPreconditionError, NotFoundError

#: The steps of one master that may be followed at a time. Masters take each part at the end of its step.
_STEPS_MAX: Final = 256


class FollowedParts:
    """The followed parts of one task.

    clock   the clock by which times leave the task
    """

    def __init__(self) -> None:
        self.clock: Callable[[], float] = perf_counter
        #: {(master, step): (the session, the part)}
        self._by_step: dict[tuple[Registrar, int], tuple[int, FollowedPart]] = {}

    def __len__(self) -> int:
        return len(self._by_step)

    def announce(self, registrar: Registrar, message: m.FollowStep) -> None:
        """Follow a step that is about to begin.

        Raises InvalidArgumentError for an unreadable request, FailedPreconditionError if the master has left
        too many parts here.
        """
        if sum(1 for master, _ in self._by_step if master == registrar) >= _STEPS_MAX:
            raise FailedPreconditionError(
                f"{_STEPS_MAX} traced or guarded steps of {registrar.task} run already: wait for one to end"
            )
        self._by_step[registrar, message.step] = message.session, FollowedPart(message.options)

    def find(self, registrar: Registrar, step: int) -> FollowedPart | None:
        """Return the part of a followed step; None for any other step."""
        found = self._by_step.get((registrar, step))
        return None if found is None else found[1]

    def forget(self, registrar: Registrar, session: int | None = None) -> None:
        """Forget the steps of a master, or of one of its sessions."""
        for key, (number, _) in [*self._by_step.items()]:
            if key[0] == registrar and session in (None, number):
                del self._by_step[key]

    async def take(self, registrar: Registrar, message: m.TakePart) -> tuple[m.TracePart, list[Value]]:
        """Return a part and forget it: see `FollowedPart.taken`.

        Raises NotFoundError for a step that was not announced.
        """
        found = self._by_step.pop((registrar, message.step), None)
        if found is None:
            raise NotFoundError(f"step {message.step} of {registrar.task} is not followed here")
        return await found[1].taken(message.seconds, self.clock)


__all__ = ["FollowedParts"]
