"""A step of one partition that needs no task: it goes on where the tensors that it waits for arrive.

A task costs more than all kernels of a small partition: to be made, to be woken for each tensor, to be waited
for. Here the executor's slices are called from whoever brings the tensors, and a task is made only for a step
that turns out to need one, because a kernel is heavy or waits, or because there is more to do than a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Protocol

import trio

from flowengine.core.errors import CancelledError
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import StepContainer
from flowengine.runtime.block_step import BlockStep
from flowengine.runtime.executor import Executor
from flowengine.runtime.list_body import ListBody
from flowengine.runtime.partitions import PartitionedPlan
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.receives import EdgeRendezvous, LocalReceives, StepGroup
from flowengine.runtime.state import ExecutorState
from flowengine.runtime.step import StepRunner
from flowengine.runtime.turns import current_turns
from flowengine.runtime.waiting import TurnCaller

#: What is called once with how a step ended: its fetched values, plans that have become hot, or the error.
Ended = Callable[[list[Any], Sequence[TieredPlan], BaseException | None], None]


class Cancellable(Protocol):
    """Something that has begun and may be given up."""

    def cancel(self) -> None:
        """End it early; without effect on what is over."""


class IdleStep(Cancellable, Protocol):
    """A step that was made, to be begun."""

    def begin(self) -> None:
        """Run as far as that goes now."""


def needs_no_task(plan: PartitionedPlan, runner: StepRunner) -> bool:
    """Whether a plan may be begun without a task."""
    return (
        len(plan.parts) == 1
        and plan.parts[0].device.shares_host_memory
        and not runner.settings.counts_allocations
    )


class TasklessStep(Executor, TurnCaller):
    """One run of a plan that `needs_no_task`, for a step that other processes take part in."""

    def __init__(
        self,
        steps: TasklessSteps,
        plan: Plan,
        context: KernelContext,
        feeds: list[Any],
        done: Ended,
        *,
        learns: bool,
    ) -> None:
        """`done` is called once, perhaps by `begin`.

        feeds    those of its partition
        learns   whether what the step takes says when the plan is to be compiled
        """
        self._container = context.step_container
        self._receives = receives = LocalReceives()
        super().__init__(
            plan,
            context.resources,
            context=context,
            use_threads=steps.use_threads,
            exchange=receives,
            turns=steps.turns,
        )
        receives.serve(self)
        self._started = perf_counter()
        self._steps = steps
        self._feeds = feeds
        self._done = done
        self._learns = learns
        #: Around its task, once it has needed one.
        self._scope: trio.CancelScope | None = None
        #: What arrives while a slice runs, or while the step stands in line, is found by that slice.
        self._inside = True
        self._is_over = False

    @property
    def group(self) -> StepGroup:
        """How its partition stands, for whoever began the step."""
        return self._receives

    def begin(self) -> None:
        """Run as far as that goes now."""
        self._steps.runner.running.add(self)
        self._start(self._feeds)
        self._go()

    def take_over(self, step: BlockStep) -> None:
        """Be what a step in blocks goes on as."""
        iteration, ready, waiting = step.iteration, list(step.ready), self._receives.waiting
        if step.under_way is not None:
            item, position = step.under_way
            ready.append(item)
            self.keep_begun(item, iteration, ListBody(item.block, iteration, self, self, position))
        assert self.plan.awaited is not None
        for number, edge in enumerate(self.plan.awaited.receives):
            if number not in step.come:
                waiting[edge.item.order, 0] = edge.item, iteration
        self.state = ExecutorState(self.plan.root)
        self._generation = self.context.resources.generation
        self.has_shared = True
        self.state.resume(iteration, ready, len(waiting))

    def resume(self) -> None:
        """As `begin`, for a step that has taken over another."""
        self._steps.runner.running.add(self)
        self._go()

    def come(self, number: int, value: Any, is_dead: bool, error: Exception | None) -> None:
        """Take in the value of a Recv that the other step had begun."""
        assert self.plan.awaited is not None
        item = self.plan.awaited.receives[number].item
        self._receives.come((item.order, 0), value, is_dead, error)

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
        """Go on: something has become ready from outside."""
        if self._scope is not None:
            super().wake()
        elif not self._inside:
            self._inside = True
            self._go()

    def run_in_turn(self) -> None:
        """Run what is ready. What else there is to do is done when it comes, or in a task."""
        self._place = None
        self._inside = True
        state = self.state
        try:
            self._check_going_on()
            is_done = (state.ready or state.done) and self._run_slice(self._turns.line.ends)
            if not is_done:
                self._check_going_on()
        except Exception as error:
            self._end(error)
            return
        if is_done:
            self._end(None)
        elif state.ready or self.needs_nursery or self.is_departing:
            self._scope = trio.CancelScope()
            self._steps.nursery.start_soon(self._go_on_in_task, self._scope)
        else:
            self._inside = False
            if not self.parked:
                self._receives.is_settled()

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
            del error  # it knows this frame

    async def _run_rest(self) -> None:
        """Run the rest of a step that was begun without a task. Raises as `run` does."""
        try:
            await self._turns.arrive(self._own_ticket())
            await self._run_on()
        finally:
            await self._wind_up()

    def _end(self, error: BaseException | None) -> None:
        """The step is over: leave nothing behind."""
        if self._is_over:
            return
        self._is_over = True
        steps = self._steps
        values: list[Any] = []
        if error is None:
            try:
                if self.error is not None or self.plan.handles.has_any:
                    self._conclude()
                values = steps.spread(self.results())
            except Exception as raised:
                error = raised
        if self.parked is not None:
            self.parked.forget()
        self._end_ticket()
        self.close()
        self._receives.finish(failed=error is not None)
        self._container.clear()
        is_hot = self._learns and error is None and steps.ran(self._feeds, perf_counter() - self._started)
        done, self.error, self.ending, self.offload = self._done, None, None, None
        # Whoever keeps the step, to give it up, keeps nothing else alive.
        del self._done, self._feeds
        self.__dict__.pop("state", None)
        steps.ended(self)
        done(values, steps.hot if is_hot else (), error)


class TasklessSteps:
    """The steps of a plan that `needs_no_task`: see `TasklessStep`.

    A plan without control flow is run in blocks once it is settled.

    runner, turns, nursery    what runs steps; whose turn it is; where steps go on that need a task
    use_threads               whether kernels may be worth a thread
    fetches                   how many values a step gives, of which some are this partition's
    hot                       the plan, for whoever compiles it
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
    ) -> tuple[IdleStep, StepGroup]:
        """One of them, to be begun, and the group of its partition."""
        part = self._part
        tiers = part.tiers
        own = [feeds[index] for index in part.feeds] if part.feeds else []
        plan = tiers.choose(own) if self._compiles else tiers.interpreted
        if self._compiles and tiers.is_settled(plan):
            blocks = part.blocks.find(plan, self.runner.resources)
            if blocks is not None:
                in_blocks = BlockStep(self, blocks, own, number, rendezvous, done)
                return in_blocks, in_blocks
        context = self.context_of(number, rendezvous, StepContainer())
        learns = self._compiles and plan is tiers.interpreted
        step = TasklessStep(self, plan, context, own, done, learns=learns)
        return step, step.group

    def go_on(self, step: BlockStep) -> TasklessStep:
        """Return the step that continues a step in blocks; `resume` it."""
        self.runner.running.discard(step)
        self._part.blocks.stopped()
        made = TasklessStep(self, step.plan, step.context, [], step.done, learns=False)
        made.take_over(step)
        return made

    def context_of(self, number: int, rendezvous: EdgeRendezvous, container: StepContainer) -> KernelContext:
        """Return the context that a step's kernels see."""
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
        """Learn from an interpreted step; whether the plan has become hot."""
        return self._part.tiers.ran(feeds, seconds)

    def ended(self, step: TasklessStep | BlockStep) -> None:
        """A step is over."""
        runner = self.runner
        runner.running.discard(step)
        if runner.ended:
            for call in tuple(runner.ended):
                call()


__all__ = ["Cancellable", "Ended", "TasklessStep", "TasklessSteps", "needs_no_task"]
