"""An attempt to run a step in place: whether it may, its first slice, and the rest of it after that."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from time import perf_counter, thread_time
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.errors import OpError
from flowengine.devices.dlpack_values import is_lent
from flowengine.runtime.in_place.step import StepInPlace
from flowengine.runtime.planning.preparing import PlannedRequest
from flowengine.runtime.planning.session_plans import SessionPlans
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.planning.timings import STAY_SECONDS, InPlaceTimes
from flowengine.runtime.step import StepRunner

#: A step with a slice later than this should not run in place: on an event loop it delays others.
_OVERRUN_SECONDS: Final = 0.0005


class NotInPlace(enum.Enum):
    """The reason why a step has not begun in place: it has to run in the portal, or later."""

    ELSEWHERE = enum.auto()
    LATER = enum.auto()


ELSEWHERE: Final = NotInPlace.ELSEWHERE
LATER: Final = NotInPlace.LATER


class UnfinishedStep:
    """A step between two slices: the next runs in place (`attempt`), or the rest in the run (`run`).

    stays   whether the next slice may run in place: the last one ended only because its time was over
    """

    __slots__ = ("_give", "_is_late", "_left", "_step", "_tell", "_times", "stays")

    def __init__(
        self,
        step: StepInPlace,
        times: InPlaceTimes,
        give: Callable[[list[Any]], Any],
        tell: Callable[[OpError], None],
        spent: float,
    ) -> None:
        """Create it; see `begin_in_place` for `give` and `tell`.

        spent   the seconds of the first slice
        """
        self._step = step
        self._times = times
        self._give = give
        self._tell = tell
        self._left = STAY_SECONDS
        self._is_late = False
        self._ran(spent)

    def _ran(self, spent: float) -> None:
        self._left -= spent
        self.stays = self._step.is_out_of_time and self._left > 0
        if not self.stays:
            self._times.note(fits=False)

    def attempt(self, token: trio.lowlevel.TrioToken, seconds: float) -> Any:
        """Run the next slice; return the result of `give`, or this object again. Call it only with the baton.

        Raises the step's error, CancelledError if the session was closed since the last slice.
        """
        started, busy = perf_counter(), thread_time()
        try:
            results = self._step.run_another(started + seconds)
            # A step that took long because its thread did not run does not delay others.
            self._is_late |= thread_time() - busy > seconds + _OVERRUN_SECONDS
            if results is None:
                self._ran(perf_counter() - started)
                return self
            given = self._give(results)
        except OpError as error:
            self._tell(error)
            raise
        self._times.note(fits=not self._is_late)
        return given

    async def run(self) -> Any:
        """Run the rest, in the run."""
        try:
            return self._give(await self._step.run_rest())
        except OpError as error:
            self._tell(error)
            raise

    def abandon(self) -> None:
        """End the step now, because its run is over."""
        self._step.abandon()


def begin_in_place(
    runner: StepRunner,
    planning: SessionPlans,
    found: PlannedRequest,
    values: Sequence[Any],
    seconds: float,
    *,
    compiles: bool,
    give: Callable[[list[Any]], Any],
    tell: Callable[[OpError], None],
) -> Any:
    """Run one slice of a step; return the result of `give`, an `UnfinishedStep`, ELSEWHERE or LATER.

    Only a plan in its final form qualifies, on one device, whose steps cannot wait and usually end after few
    slices; not if memory is counted, nor with feeds from other memories or that take long to read.

    seconds   the length of a slice; LATER if that is nothing and the step could run otherwise
    tell      is called with an error of a later slice, before it is raised
    """
    prepared, turns = found.prepared, runner.known_turns
    tiers = prepared.plan
    if (
        not isinstance(tiers, TieredPlan)
        or (compiles and tiers.settled_form() is None)
        or (times := tiers.in_place) is None
        or turns is None
        or runner.settings.counts_allocations
        or (prepared.takes_text and planning.takes_long(prepared.feeds, values))
        or any(type(value) is not np.ndarray and is_lent(value) for value in values)
    ):
        return ELSEWHERE
    if seconds <= 0:
        return LATER
    if not times.may_try():
        return ELSEWHERE
    started = perf_counter()
    ends = started + seconds
    feeds = [spec.convert(value) for spec, value in zip(prepared.feeds, values, strict=True)]
    plan = tiers.settled_form(feeds) if compiles else tiers.interpreted
    if plan is None:
        return ELSEWHERE
    step = StepInPlace(runner, plan, turns)
    results = step.begin(feeds, ends)
    del feeds
    if results is None:
        return UnfinishedStep(step, times, give, tell, perf_counter() - started)
    given = give(results)
    times.note(fits=perf_counter() <= ends + _OVERRUN_SECONDS)
    return given


__all__ = ["ELSEWHERE", "LATER", "NotInPlace", "UnfinishedStep", "begin_in_place"]
