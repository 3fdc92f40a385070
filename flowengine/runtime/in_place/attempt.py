"""An attempt to run a step in place: whether it may, its first slice, and what is left after that."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core.errors import OpError
from flowengine.devices.dlpack_values import is_lent
from flowengine.runtime.in_place.step import StepInPlace
from flowengine.runtime.planning.preparing import PlannedRequest
from flowengine.runtime.planning.session_plans import SessionPlans
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.step import StepRunner


class NotInPlace(enum.Enum):
    """Why a step has not begun in place: it has to run in the portal, or later."""

    ELSEWHERE = enum.auto()
    LATER = enum.auto()


ELSEWHERE: Final = NotInPlace.ELSEWHERE
LATER: Final = NotInPlace.LATER


class UnfinishedStep(NamedTuple):
    """The rest of a step after its slice in place: a coroutine function for the run."""

    run: Callable[[], Awaitable[Any]]


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
    """Run one slice of a step: what `give` makes of its results, a `UnfinishedStep`, ELSEWHERE or LATER.

    Only a plan in its final form qualifies, on one device, whose steps cannot wait and usually end within
    their slice; not where memory is counted, nor with what is fed from other memories or takes long to read.

    seconds   how long a slice is; LATER if that is nothing and the step could run otherwise
    tell      what an error of the rest is given to, before it is raised
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
    ends = perf_counter() + seconds
    feeds = [spec.convert(value) for spec, value in zip(prepared.feeds, values, strict=True)]
    plan = tiers.settled_form(feeds) if compiles else tiers.interpreted
    if plan is None:
        return ELSEWHERE
    step = StepInPlace(runner, plan, turns)
    results = step.begin(feeds, ends)
    del feeds
    if results is not None:
        given = give(results)
        times.note(fits=perf_counter() <= ends)
        return given
    times.note(fits=False)

    async def go_on() -> Any:
        try:
            return give(await step.run_rest())
        except OpError as error:
            tell(error)
            raise

    return UnfinishedStep(go_on)


__all__ = ["ELSEWHERE", "LATER", "NotInPlace", "UnfinishedStep", "begin_in_place"]
