"""The slices of a step in its caller's thread.

The trio run continues a step that takes longer than a few slices, or meets a heavy kernel or a variable that
a thread writes.
"""

from __future__ import annotations

from typing import Any

import trio

from flowengine.runtime.executor import Executor
from flowengine.runtime.frames import IterationState
from flowengine.runtime.lanes import HEAVY_MICROSECONDS, LATER, THREAD
from flowengine.runtime.planning.items import Item
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.step import StepRunner
from flowengine.runtime.turns import Turns


class StepInPlace(Executor):
    """A step whose first slices run in its caller's thread, which has the baton meanwhile."""

    #: Whether such a slice is under way.
    _is_in_place = False
    #: Whether an item has been ready that is worth a thread.
    _wants_thread = False

    def __init__(self, runner: StepRunner, plan: Plan, turns: Turns) -> None:
        super().__init__(
            plan,
            runner.resources,
            new_context=runner.new_context,
            use_threads=runner.settings.worker_threads,
            turns=turns,
        )
        self._runner = runner

    def begin(self, feeds: list[Any], ends: float) -> list[Any] | None:
        """Run one slice; return the fetched values, or None if `run_rest` must follow.

        Raises the step's error; nothing is left of it then.
        """
        self._runner.running.add(self)
        return self._run_in_place(feeds, ends)

    def run_another(self, ends: float) -> list[Any] | None:
        """Run another slice, if the step `is_out_of_time`, as `begin` does.

        Raises CancelledError if the session was closed between the slices.
        """
        return self._run_in_place(None, ends)

    @property
    def is_out_of_time(self) -> bool:
        """Return whether the last slice only lacked time: the next may run in place, too."""
        return not (self._wants_thread or self.needs_nursery or self.is_waiting())

    def _run_in_place(self, feeds: list[Any] | None, ends: float) -> list[Any] | None:
        is_over = True
        self._is_in_place = True
        try:
            if feeds is None:
                self._check_going_on()
            else:
                self._start(feeds)
            is_over = self._run_slice(ends)
            if not is_over:
                return None
            if self.error is not None or self.looks_up:
                self._conclude()
            return self.results()
        finally:
            self._is_in_place = False
            if is_over:
                self.abandon()

    def abandon(self) -> None:
        """End the step now; nothing is left of it."""
        if self.parked is not None:
            self.parked.forget()
        self.close()
        self._end()

    async def run_rest(self) -> list[Any]:
        """Run the rest of the step, in the run; otherwise as `StepRunner.run`."""
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            await self.run(None, has_turn=False)
            return self.results()
        finally:
            self.abandon()

    def _end(self) -> None:
        """Record the end of the step."""
        self._runner.running.discard(self)
        if self.container is not None:
            self.container.clear()
        for call in tuple(self._runner.ended):
            call()

    def lane_of(self, item: Item, iteration: IterationState, args: list[Any], estimate: float) -> int:
        """Decide the lane as in any step; in place, a kernel that is worth a thread ends the slice."""
        if not self._is_in_place or estimate <= HEAVY_MICROSECONDS or not self.uses_threads:
            return super().lane_of(item, iteration, args, estimate)
        self._wants_thread = True
        if self.may_wait(item):
            return LATER
        self._start_on_thread(item, iteration, args)
        return THREAD


__all__ = ["StepInPlace"]
