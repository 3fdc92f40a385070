"""The steps of one task: those that run, those that are only heard of so far, and those that are over.

A step's tensors may arrive before the step begins: they are kept, within the credit that pays for them.
Tensors for a step that has ended are dropped. Step ids never return, so "ended" is kept for good: as ranges,
because ids are handed out in order and ranges of ended ones grow together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from flowengine.core.errors import FailedPreconditionError, OpError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.tensors.rendezvous import LocalRendezvous

#: The number of ranges kept. Ids of one master leave one range; so many come only from as many masters, or
#: from steps that are still running. The two oldest are then joined: an id between them that has not begun
#: counts as ended.
RANGES_MAX: Final = 65_536
#: Steps that failed elsewhere before they began here; beyond this number, the oldest are forgotten.
_FAILURES_MAX: Final = 4096


class EndedSteps:
    """A set of step ids that only grows, kept as ranges [first, last]."""

    def __init__(self, ranges_max: int = RANGES_MAX) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._ranges_max = ranges_max

    def __contains__(self, step: int) -> bool:
        lasts = self._lasts
        if not lasts or step > lasts[-1]:
            return False
        place = bisect_right(self._firsts, step) - 1
        return place >= 0 and step <= lasts[place]

    def add(self, step: int) -> None:
        firsts, lasts = self._firsts, self._lasts
        if lasts and step == lasts[-1] + 1:
            # Nearly always: the next one of the newest master.
            lasts[-1] = step
            return
        place = bisect_right(firsts, step) - 1
        if place >= 0 and step <= lasts[place]:
            return
        touches_left = place >= 0 and lasts[place] == step - 1
        touches_right = place + 1 < len(firsts) and firsts[place + 1] == step + 1
        if touches_left and touches_right:
            lasts[place] = lasts.pop(place + 1)
            del firsts[place + 1]
        elif touches_left:
            lasts[place] = step
        elif touches_right:
            firsts[place + 1] = step
        else:
            firsts.insert(place + 1, step)
            lasts.insert(place + 1, step)
        if len(firsts) > self._ranges_max:
            del firsts[1], lasts[0]

    @property
    def ranges(self) -> int:
        """Return the number of ranges kept."""
        return len(self._firsts)


class Step:
    """One step at this task, from the first message about it."""

    __slots__ = (
        "announced",
        "held",
        "incarnations",
        "is_begun",
        "lost",
        "number",
        "received",
        "sent",
        "table",
    )

    def __init__(self, number: int, on_wait: Callable[[Step, RendezvousKey], Exception | None]) -> None:
        self.number = number
        self.is_begun = False
        #: Messages of the step to and from other tasks: pushes, announcements and pulls. When all tasks are
        #: at rest, and as many were received as sent, nothing is on its way.
        self.sent = 0
        self.received = 0
        self.table = LocalRendezvous(lambda key: on_wait(self, key))
        #: {task: incarnation} of the tasks that take part, if the master has named them.
        self.incarnations: Mapping[str, int] | None = None
        #: {task: the reason of its loss}
        self.lost: dict[str, OpError] = {}
        #: {key: (peer, credit)} of tensors that wait at their sender for our pull
        self.announced: dict[RendezvousKey, tuple[Any, int]] = {}
        #: {key: (peer, payload, dead)} of tensors that wait here for a peer's pull
        self.held: dict[RendezvousKey, tuple[Any, Any, bool]] = {}

    def has_part(self, task: str) -> bool:
        """Return whether this task may take part."""
        return self.incarnations is None or task in self.incarnations


class StepTable:
    """The steps of one task: `living` are those that run here or are heard of, `ended` the others."""

    def __init__(self, on_wait: Callable[[Step, RendezvousKey], Exception | None]) -> None:
        self.living: dict[int, Step] = {}
        self.ended = EndedSteps()
        self._on_wait = on_wait
        #: The errors of steps that failed elsewhere and have not begun here.
        self._failures: OrderedDict[int, OpError] = OrderedDict()

    def find(self, number: int) -> Step:
        """Return a step that has not ended, with the data known of it."""
        step = self.living.get(number)
        if step is None:
            step = self.living[number] = Step(number, self._on_wait)
        return step

    def begin(self, number: int, incarnations: Mapping[str, int] | None) -> Step:
        """Begin a step here. Raises FailedPreconditionError if it has ended or has begun."""
        if number in self.ended:
            raise FailedPreconditionError(f"step {number} has ended: step ids are never reused")
        step = self.living.get(number)
        if step is None:
            step = self.living[number] = Step(number, self._on_wait)
        elif step.is_begun:
            raise FailedPreconditionError(f"step {number} has begun already")
        step.is_begun = True
        step.incarnations = incarnations
        if self._failures:
            error = self._failures.pop(number, None)
            if error is not None:
                step.table.abort(error)
        return step

    def fail(self, number: int, error: OpError) -> None:
        """Record that a step has failed elsewhere."""
        if number in self.ended:
            return
        step = self.living.get(number)
        if step is not None and step.is_begun:
            step.table.abort(error)
            step.held.clear()
            return
        self._failures[number] = error
        if len(self._failures) > _FAILURES_MAX:
            self._failures.popitem(last=False)

    def end(self, number: int) -> Step | None:
        """End a step for good; return the rest of it."""
        self.ended.add(number)
        self._failures.pop(number, None)
        return self.living.pop(number, None)


__all__ = ["EndedSteps", "Step", "StepTable"]
