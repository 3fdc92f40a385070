"""A step of one partition that needs no task: it continues where its awaited tensors arrive.

A task costs more than all kernels of a small partition: to make it, to wake it for each tensor, to wait for
it. Here the receiver of a tensor calls the executor's slices, and a task is made only for a step that turns
out to need one, because a kernel is heavy or waits, or because there is more to do than a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import trio

from flowengine.core.errors import CancelledError
from flowengine.core.rendezvous import Received
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import StepContainer
from flowengine.runtime.executor import Executor
from flowengine.runtime.frames import IterationState
from flowengine.runtime.partitioned_plan import PartitionedPlan
from flowengine.runtime.planning.items import Item
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.receives import EdgeRendezvous, Key, Place, places_of
from flowengine.runtime.step import StepRunner
from flowengine.runtime.turns import current_turns
from flowengine.runtime.waiting import TurnCaller

#: Called once with the end of a step: its fetched values, plans that have become hot, or the error.
Ended = Callable[[list[Any], Sequence[TieredPlan], BaseException | None], None]


class Cancellable(Protocol):
    """An operation that has begun and can be abandoned."""

    def cancel(self) -> None:
        """End it early; without effect if it is over."""


def needs_no_task(plan: PartitionedPlan, runner: StepRunner) -> bool:
    """Return whether a plan may begin without a task."""
    return (
        len(plan.parts) == 1
        and plan.parts[0].device.shares_host_memory
        and not runner.settings.counts_allocations
    )


class TasklessStep(Executor, TurnCaller):
    """One run of a plan that `needs_no_task`, for a step that other processes take part in.

    It is also the `ReceiveTable` of its one partition, and its `StepGroup` for the step's initiator.

    waiting     {key: (a Recv, its iteration)}
    is_asleep   whether it only waits
    """

    at_edges = True
    waiting: dict[Key, tuple[Item, IterationState]]
    is_asleep = False
    #: Around its task, once it has needed one.
    _scope: trio.CancelScope | None = None
    #: Tensors that arrive while a slice runs, or while the step stands in line, are found by that slice.
    _inside = True
    _is_over = False

    def __init__(
        self,
        steps: TasklessSteps,
        plan: Plan,
        feeds: Sequence[Any],
        number: int,
        rendezvous: EdgeRendezvous,
        done: Ended,
        *,
        learns: bool,
    ) -> None:
        """`done` is called once, perhaps by `begin`.

        feeds    those of its partition
        number   the number of the step
        learns   whether the times of the step decide when the plan is compiled
        """
        runner = steps.runner
        super().__init__(
            plan, runner.resources, use_threads=steps.use_threads, exchange=self, turns=steps.turns
        )
        self.along = rendezvous.send_along
        self._steps = steps
        self._feeds = feeds
        self._number = number
        self._rendezvous = rendezvous
        self._done = done
        self._learns = learns
        if learns:
            self._started = perf_counter()

    def make_context(self, container: StepContainer) -> KernelContext:
        return self._steps.context_of(self._number, self._rendezvous, container)

    def begin(self) -> None:
        """Run as far as possible now."""
        self._steps.runner.running.add(self)
        self._start(self._feeds)
        self.waiting = self.state.awaited.copy()
        if self.waiting:
            self._rendezvous.receive_all(self._prepared.routes, self.come)
        self._go()

    # -- awaited tensors ----------------------------------------------------------------------------

    def awaited(self, item: Item, iteration: IterationState) -> Received:
        """Return the function to call with the value that a Recv waits for."""
        key = (item.order, iteration.serial)
        self.waiting[key] = (item, iteration)
        return partial(self.come, key)

    def come(self, key: Key, value: Any, is_dead: bool, error: Exception | None) -> None:
        """Take the value that a Recv waits for."""
        found = self.waiting.pop(key, None)
        if found is None:
            return  # given up, or the step is over
        self.is_asleep = False
        if error is not None:
            self.end_with(error)
        elif is_dead or self.offload is not None:
            self.received(*found, value, is_dead)
        else:
            self.state.finish_single(*found, value)
            if not self._inside:
                self._inside = True
                self._go()
            elif self._scope is not None:
                self.wake()

    def is_settled(self) -> bool:
        """Return True if the step need not sleep; called before it sleeps with nothing but awaited Recvs."""
        self.is_asleep = True
        return False

    def first(self) -> Place | None:
        """Return the place of the Recvs to give up first; None if there is none."""
        return min((place for place, _ in places_of(self.waiting)), default=None)

    def give_up(self, first: Place) -> None:
        """Give up the Recvs of this place: their values will not come."""
        self.is_asleep = False
        for place, key in places_of(self.waiting):
            if place == first:
                _, iteration = self.waiting.pop(key)
                self.state.give_up(iteration)
        self.wake()

    # -- when it runs, and how it ends --------------------------------------------------------------

    def cancel(self) -> None:
        """End the step with CancelledError."""
        if self._is_over:
            return
        if self._scope is not None:
            self._scope.cancel()
        else:
            self.request_cancel()
            self._go_at_once()

    def wake(self) -> None:
        """Continue: an item has become ready from outside."""
        if self._scope is not None:
            super().wake()
        elif not self._inside:
            self._inside = True
            self._go()

    @trio.lowlevel.enable_ki_protection
    def run_in_turn(self) -> None:
        """Run the ready items. Other work follows when it arrives, or in a task."""
        self._place = None
        self._inside = True
        state = self.state
        is_done = False
        try:
            if self.ending is not None or self.is_cancelled:
                self._check_going_on()
            if state.ready:
                self.run_ready(self._turns.line.ends)
            if state.done or not (state.ready or self.waiting):
                is_done = self._has_ended()
            if not is_done and (self.ending is not None or self.is_cancelled):
                self._check_going_on()
        except Exception as error:
            self._end(error)
            return
        if is_done:
            self._end(None)
        elif state.ready or self.needs_nursery or (self.offload is not None and self.is_departing):
            self._scope = trio.CancelScope()
            self._steps.nursery.start_soon(self._go_on_in_task, self._scope)
        else:
            self._inside = False
            self.is_asleep = not self.parked

    async def _go_on_in_task(self, scope: trio.CancelScope) -> None:
        error: BaseException = CancelledError("the step was cancelled")
        try:
            with scope:
                await self._run_rest()
        except Exception as raised:
            error = raised
        except BaseException:
            self._end(error)
            raise
        else:
            if not scope.cancelled_caught:
                self._end(None)
                return
        try:
            self._end(error)
        finally:
            del error  # it refers to this frame

    async def _run_rest(self) -> None:
        """Run the rest of a step that was begun without a task. Raises as `run` does."""
        try:
            await self._turns.arrive(self._own_ticket())
            await self._run_on()
        finally:
            await self._wind_up()

    def _end(self, error: BaseException | None) -> None:
        """End the step, and leave nothing behind."""
        if self._is_over:
            return
        self._is_over = True
        steps = self._steps
        values: list[Any] = []
        if error is None:
            try:
                if self.error is not None or self.looks_up:
                    self._conclude()
                values = self.results()
                if values:
                    values = steps.spread(values)
            except Exception as raised:
                error = raised
        if self.parked is not None:
            self.parked.forget()
        if self._ticket is not None:
            self._end_ticket()
        if self.begun or self.held:
            self.close()
        self.waiting.clear()
        if self.container is not None:
            self.container.clear()
        is_hot = self._learns and error is None and steps.ran(self._feeds, perf_counter() - self._started)
        done = self._done
        # The step's holder, who may cancel it, keeps nothing else alive; nor does the step refer to itself.
        del self._done, self._feeds, self.exchange
        self.offload = None
        if error is not None:
            self.error = self.ending = None
            self.__dict__.pop("state", None)
        steps.ended(self)
        done(values, steps.hot if is_hot else (), error)


class TasklessSteps:
    """The steps of a plan that `needs_no_task`: see `TasklessStep`.

    runner, turns, nursery    the runner of steps; their turns; the nursery of steps that need a task
    use_threads               whether kernels may be worth a thread
    fetches                   the number of values of a step, of which some are this partition's
    hot                       the plan, for its compiler
    """

    __slots__ = (
        "_compiles",
        "_device",
        "_part",
        "fetches",
        "hot",
        "nursery",
        "runner",
        "turns",
        "use_threads",
    )

    def __init__(
        self,
        runner: StepRunner,
        plan: PartitionedPlan,
        nursery: trio.Nursery,
        *,
        compiles: bool,
    ) -> None:
        self._part = part = plan.parts[0]
        self._compiles = compiles
        self.runner = runner
        self.turns = current_turns()
        self.nursery = nursery
        self._device = part.device.name
        self.use_threads = runner.settings.worker_threads
        self.fetches = plan.fetches
        self.hot = (part.tiers,)

    def make(
        self, feeds: Sequence[Any], number: int, rendezvous: EdgeRendezvous, done: Ended
    ) -> TasklessStep:
        """Return one of them, to be begun; also the group of its partition."""
        part = self._part
        tiers = part.tiers
        own = [feeds[index] for index in part.feeds] if part.feeds else []
        plan = tiers.choose(own) if self._compiles else tiers.interpreted
        # Without feeds, which may grow, a settled plan has nothing more to learn.
        learns = self._compiles and plan is tiers.interpreted and (bool(own) or not tiers.learned.is_settled)
        return TasklessStep(self, plan, own, number, rendezvous, done, learns=learns)

    def context_of(self, number: int, rendezvous: EdgeRendezvous, container: StepContainer) -> KernelContext:
        """Return the context of a step's kernels."""
        return KernelContext(
            resources=self.runner.resources,
            step_container=container,
            rendezvous=rendezvous,
            device=self._device,
            step_id=number,
            functions=self._part.tiers.interpreted.caller,
            **self.runner.common,
        )

    def spread(self, found: list[Any]) -> list[Any]:
        """Return the fetched values of a step, at their places among the request's."""
        values: list[Any] = [None] * self.fetches
        found.reverse()
        for index in self._part.fetches:
            values[index] = found.pop()  # popped, so that the caller's list alone holds it
        return values

    def ran(self, feeds: Sequence[Any], seconds: float) -> bool:
        """Learn from an interpreted step; return whether the plan has become hot."""
        return self._part.tiers.ran(feeds, seconds)

    def ended(self, step: TasklessStep) -> None:
        """Record the end of a step."""
        runner = self.runner
        runner.running.discard(step)
        if runner.ended:
            for call in tuple(runner.ended):
                call()


__all__ = ["Cancellable", "Ended", "TasklessStep", "TasklessSteps", "needs_no_task"]
