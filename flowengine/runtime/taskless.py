"""A step of one partition that needs no task: it goes on where the tensors that it waits for arrive.

A task costs more than all kernels of a small partition: to be made, to be woken for each tensor, to be waited
for. Here the executor's slices are called from whoever brings the tensors, and a task is made only for a step
that turns out to need one, because a kernel is heavy or waits, or because there is more to do than a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
import trio

from flowengine.core.errors import CancelledError, OpError
from flowengine.core.rendezvous import Rendezvous
from flowengine.devices.device import Device
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import StepContainer
from flowengine.runtime.exchange import Exchange, Group
from flowengine.runtime.executor import DONE, NEEDS_TASK, Executor
from flowengine.runtime.partitions import JointStep, PartitionedPlan
from flowengine.runtime.plan import Plan
from flowengine.runtime.state import ExecutorState
from flowengine.runtime.step import StepRunner
from flowengine.runtime.straight_host import StraightRendezvous
from flowengine.runtime.straight_step import StraightStep
from flowengine.runtime.tiers import TieredPlan
from flowengine.runtime.turn_line import Ticket
from flowengine.runtime.turns import Turns, current_turns

#: What is called once with how a step ended: its fetched values, plans that have become hot, or the error.
Ended = Callable[[list[Any], Sequence[TieredPlan], BaseException | None], None]


class Running(Protocol):
    """Something that has begun and may be given up."""

    def cancel(self) -> None:
        """End it early; without effect on what is over."""


class Begun(Running, Protocol):
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


class Came(NamedTuple):
    """How far a step has come that goes on here: by which plan, and what it holds."""

    plan: Plan
    state: ExecutorState
    container: StepContainer | None


class TasklessStep:
    """One run of a plan that `needs_no_task`, for a step that other processes take part in."""

    __slots__ = (
        "_came",
        "_compiles",
        "_container",
        "_done",
        "_exchange",
        "_executor",
        "_feeds",
        "_inside",
        "_is_over",
        "_nursery",
        "_part",
        "_plan",
        "_runner",
        "_scope",
        "_size",
        "_started",
        "_ticket",
        "_turns",
    )

    def __init__(
        self,
        runner: StepRunner,
        plan: PartitionedPlan,
        feeds: Sequence[Any],
        joint: JointStep,
        nursery: trio.Nursery,
        done: Ended,
        turns: Turns,
        *,
        compiles: bool,
        came: Came | None = None,
    ) -> None:
        """`nursery` is where it goes on if it needs a task; `done` is called once, perhaps by `begin`.

        feeds  those of its partition
        came   what has run of it already, if anything
        """
        self._started = perf_counter()
        self._runner = runner
        self._compiles = compiles
        self._size = plan.fetches
        self._part = part = plan.parts[0]
        self._nursery = nursery
        self._done = done
        self._feeds = list(feeds)
        self._came = came
        if came is not None:
            self._plan = came.plan
            self._container = came.container if came.container is not None else StepContainer()
        else:
            self._plan = part.tiers.choose(self._feeds) if compiles else part.tiers.interpreted
            self._container = StepContainer()
        self._exchange = Exchange(joint.group, None)
        self._executor = Executor(
            self._plan,
            _context(runner, part.device, self._container, joint.number, joint.rendezvous),
            use_threads=runner.settings.worker_threads,
            exchange=self._exchange,
            turns=turns,
        )
        self._exchange.serve(self._executor)
        self._turns = turns
        #: Its place in line, while it stands there.
        self._ticket: Ticket | None = None
        self._scope: trio.CancelScope | None = None
        self._inside = False
        self._is_over = False

    def begin(self) -> None:
        """Run as far as that goes now."""
        self._runner.running.add(self._executor)
        came, self._came = self._came, None
        if came is not None:
            self._go(lambda: self._executor.resume(came.state, self._heard))
        else:
            self._go(lambda: self._executor.begin(self._feeds, self._heard))

    def cancel(self) -> None:
        """End the step with CancelledError."""
        if self._is_over:
            return
        if self._scope is not None:
            self._scope.cancel()
        else:
            self._executor.request_cancel()
            if self._ticket is not None:
                self._turns.withdraw(self._ticket)
                self._go_in_turn(self._executor.go_on)

    def _heard(self) -> None:
        # What arrives while a slice runs is found by that slice.
        if not self._inside and self._scope is None:
            self._go(self._executor.go_on)

    def _go(self, advance: Callable[[], int]) -> None:
        """Go on, now or when it is this step's turn."""
        turns = self._turns
        if perf_counter() < turns.line.serves_until or turns.serves():
            self._go_in_turn(advance)
        else:
            self._inside = True
            self._ticket = Ticket()
            turns.defer(self._ticket, partial(self._go_in_turn, advance))

    def _go_in_turn(self, advance: Callable[[], int]) -> None:
        self._ticket = None
        self._inside = True
        try:
            standing = advance()
        except Exception as error:
            self._end(error)
            return
        finally:
            self._inside = False
        if standing == DONE:
            self._end(None)
        elif standing == NEEDS_TASK:
            self._scope = trio.CancelScope()
            self._nursery.start_soon(self._go_on_in_task, self._scope)

    async def _go_on_in_task(self, scope: trio.CancelScope) -> None:
        error: BaseException = CancelledError("the step was cancelled")
        try:
            with scope:
                await self._executor.run_rest()
        except Exception as raised:
            error = raised
        except BaseException:
            self._end(error)
            raise
        else:
            if not scope.cancelled_caught:
                self._end(None)
                return
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        values: list[Any] = []
        if error is None:
            try:
                values = self._results()
            except OpError as missing:
                error = missing
        self._executor.drop()
        self._exchange.finish(failed=error is not None)
        self._container.clear()
        self._runner.running.discard(self._executor)
        for call in tuple(self._runner.ended):
            call()
        tiers = self._part.tiers
        is_hot = (
            error is None
            and self._compiles
            and self._plan is tiers.interpreted
            and tiers.ran(self._feeds, perf_counter() - self._started)
        )
        done = self._done
        # Whoever keeps the step, to give it up, keeps nothing else alive.
        del self._done, self._feeds, self._executor
        done(values, (tiers,) if is_hot else (), error)

    def _results(self) -> list[Any]:
        values: list[Any] = [None] * self._size
        found = self._executor.results()
        found.reverse()
        for index in self._part.fetches:
            values[index] = found.pop()
        return values


class TasklessSteps:
    """The steps of a plan that `needs_no_task`: see `TasklessStep`.

    A plan without control flow is run by segments once it is settled. Keeps `StraightHost`.
    """

    __slots__ = (
        "_compiles",
        "_make_group",
        "_nursery",
        "_part",
        "_plan",
        "_runner",
        "device",
        "quiet",
        "turns",
        "use_threads",
    )

    def __init__(
        self,
        runner: StepRunner,
        plan: PartitionedPlan,
        make_group: Callable[[], Group],
        nursery: trio.Nursery,
        *,
        compiles: bool,
    ) -> None:
        self._runner = runner
        self._plan = plan
        self._part = part = plan.parts[0]
        self._make_group = make_group
        self._nursery = nursery
        self._compiles = compiles
        self.device = part.device.name
        self.use_threads = runner.settings.worker_threads
        self.turns = current_turns()
        self.quiet = Context()
        self.quiet.run(np.seterr, all="ignore")

    def make(
        self, feeds: Sequence[Any], number: int, rendezvous: StraightRendezvous, done: Ended
    ) -> tuple[Begun, Group]:
        """One of them, to be begun, and the group of its partition."""
        part = self._part
        own = [feeds[index] for index in part.feeds] if part.feeds else []
        if self._compiles:
            chosen = part.tiers.choose(own)
            if part.tiers.is_settled(chosen):
                straight = part.cut.find(chosen, self._runner.resources)
                if straight is not None:
                    step = StraightStep(straight, own, number, rendezvous, self, done)
                    self._runner.running.add(step)
                    return step, step
        return self._make(own, number, rendezvous, done, None)

    def _make(
        self, feeds: Sequence[Any], number: int, rendezvous: Rendezvous, done: Ended, came: Came | None
    ) -> tuple[TasklessStep, Group]:
        group = self._make_group()
        joint = JointStep(number, rendezvous, group)
        step = TasklessStep(
            self._runner,
            self._plan,
            feeds,
            joint,
            self._nursery,
            done,
            self.turns,
            compiles=self._compiles,
            came=came,
        )
        return step, group

    # What straight steps ask.

    def make_context(self, step: StraightStep, container: StepContainer) -> KernelContext:
        """What the step's kernels see."""
        return _context(self._runner, self._part.device, container, step.number, step.rendezvous)

    def ended(self, step: StraightStep, values: list[Any], error: BaseException | None) -> None:
        """A step is over."""
        runner = self._runner
        runner.running.discard(step)
        if runner.ended:
            for call in tuple(runner.ended):
                call()
        if values:
            found, values = values, [None] * self._plan.fetches
            for index, value in zip(self._part.fetches, found, strict=True):
                values[index] = value
        step.done(values, (), error)

    def go_on(
        self, step: StraightStep, state: ExecutorState, container: StepContainer | None
    ) -> tuple[TasklessStep, Group]:
        """What a step goes on as."""
        self._runner.running.discard(step)
        self._part.cut.failed()
        came = Came(step.plan, state, container)
        return self._make(step.feeds, step.number, step.rendezvous, step.done, came)


def _context(
    runner: StepRunner, device: Device, container: StepContainer, number: int, rendezvous: Rendezvous
) -> KernelContext:
    return KernelContext(
        resources=runner.resources,
        step_container=container,
        rendezvous=rendezvous,
        device=device.name,
        step_id=number,
        **runner.common,
    )


__all__ = ["Ended", "Running", "TasklessStep", "TasklessSteps", "needs_no_task"]
