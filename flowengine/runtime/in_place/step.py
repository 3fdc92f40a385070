"""The first slice of a step in its caller's thread.

What does not end there goes on in the run: what takes longer than one slice, or meets a heavy kernel or a
variable that a thread writes.
"""

from __future__ import annotations

from typing import Any

from flowengine.kernels.context import KernelContext
from flowengine.resources.container import StepContainer
from flowengine.runtime.executor import Executor
from flowengine.runtime.frames import IterationState
from flowengine.runtime.lanes import HEAVY_MICROSECONDS, LATER, THREAD
from flowengine.runtime.planning.items import Item
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.step import StepRunner
from flowengine.runtime.turns import Turns


class StepInPlace(Executor):
    """A step whose first slice runs in its caller's thread, which has the baton."""

    __slots__ = ("_in_place_ends", "_runner")

    def __init__(self, runner: StepRunner, plan: Plan, turns: Turns) -> None:
        context = KernelContext(
            resources=runner.resources,
            step_container=StepContainer(),
            device=runner.device.name,
            step_id=runner.new_step_id(),
            functions=plan.caller,
            **runner.common,
        )
        super().__init__(plan, context, use_threads=runner.settings.worker_threads, turns=turns)
        self._runner = runner
        #: When its slice in place ends; None once that is over.
        self._in_place_ends: float | None = None

    def begin(self, feeds: list[Any], ends: float) -> list[Any] | None:
        """Run one slice. The fetched values if that was the whole step, None if it is to `go_on` in the run.

        Raises the step's error; nothing is left of it then.
        """
        self._runner.running.add(self)
        is_over = True
        self._in_place_ends = ends
        try:
            is_over = self._begin(feeds)
            if not is_over:
                return None
            if self.error is not None or self.plan.handles.has_any:
                self._conclude()
            return self.results()
        finally:
            self._in_place_ends = None
            if is_over:
                if self.parked is not None:
                    self.parked.forget()
                self.loop.close()
                self._leave()

    async def go_on(self) -> list[Any]:
        """Run the rest of the step, in the run. As `StepRunner.run` for everything else."""
        try:
            await self.run(None, has_turn=False)
            return self.results()
        finally:
            self._leave()

    def _leave(self) -> None:
        """The step is over."""
        self._runner.running.discard(self)
        self.context.step_container.clear()
        for call in tuple(self._runner.ended):
            call()

    def _slice_ends(self) -> float:
        return super()._slice_ends() if self._in_place_ends is None else self._in_place_ends

    def lane_of(self, item: Item, iteration: IterationState, args: list[Any], estimate: float) -> int:
        """As of any step; in place, what is worth a thread ends the slice, and is decided in the run."""
        if self._in_place_ends is None or estimate <= HEAVY_MICROSECONDS or not self._use_threads:
            return super().lane_of(item, iteration, args, estimate)
        if self.loop.may_wait(item):
            return LATER
        self._start_on_thread(item, iteration, args)
        return THREAD


__all__ = ["StepInPlace"]
