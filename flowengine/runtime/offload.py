"""The work of a step on compute threads: single kernels, or the whole executor in an offloaded run.

Made for a step when the first of its items is worth a thread. Everything here is called on the event loop's
thread, except for the items of an offloaded run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from time import perf_counter
from typing import Any

import trio

from flowengine.core.accounting import call_for
from flowengine.core.errors import CancelledError, OpError
from flowengine.kernels.context import KernelContext
from flowengine.kernels.providers import dismiss_team
from flowengine.resources.function_calls import BESIDE_OTHERS
from flowengine.resources.variable import Variable
from flowengine.runtime import lanes
from flowengine.runtime.failures import cause_of
from flowengine.runtime.frames import IterationState
from flowengine.runtime.lanes import Doing, Ownership
from flowengine.runtime.memory import MemoryMeter
from flowengine.runtime.offload_policy import HeavyJobs, has_company
from flowengine.runtime.offloaded_runs import LOOK_SECONDS, OffloadedRun
from flowengine.runtime.planning.items import Item, Kind, grouped
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.ready_loop import ReadyLoop
from flowengine.runtime.threads import POOL, PRODUCTS, Job, current_inbox


class StepOwner(ReadyLoop):
    """The step whose items these are."""

    def wake(self) -> None:
        """Wake the step."""
        raise NotImplementedError

    def end_with(self, error: Exception) -> None:
        """End the step, at its next turn."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """Record the error of an item, and end the step."""
        raise NotImplementedError


def _entered(call: Callable[..., Any], args: list[Any], context: KernelContext) -> Any:
    """Call a region whose kernels enter their device once for all, and return its outputs."""
    assert context.crossing is not None
    with context.crossing.entered():
        return call(args, context)


class Offload:
    """The compute threads' part of one step.

    ownership   the owner of the executor
    jobs        kernels on threads
    departing   the first item of the next offloaded run, with its inputs
    gives_way   whether an offloaded run was called back: then waiting steps get its variables before the next
    """

    __slots__ = (
        "_beside_others",
        "_inbox",
        "_is_worth_it",
        "_meter",
        "_offloaded_run",
        "_plan",
        "_step",
        "departing",
        "gives_way",
        "jobs",
        "ownership",
    )

    def __init__(self, plan: Plan, meter: MemoryMeter | None, step: StepOwner) -> None:
        self._plan = plan
        self._meter = meter
        self._step = step
        self._inbox = current_inbox()
        self.ownership = Ownership()
        self.jobs = HeavyJobs()
        self.departing: tuple[Item, IterationState, list[Any]] | None = None
        self.gives_way = False
        self._offloaded_run: OffloadedRun | None = None
        #: Whether the plan is worth an offloaded run; None until that matters.
        self._is_worth_it: bool | None = None
        self._beside_others = BESIDE_OTHERS.get()

    @property
    def is_away(self) -> bool:
        """Return whether a thread has the executor."""
        return self.ownership.is_away

    @property
    def must_be_waited_for(self) -> bool:
        """Return whether a kernel runs that may leave a variable half written. Others end by themselves."""
        return bool(self.jobs) or (self._offloaded_run is not None and self._offloaded_run.holds_variables)

    def lane_of(self, item: Item, estimate: float, seconds_left: float, *, others_wait: bool) -> int:
        """Return the lane of a kernel that is worth a thread."""
        step, jobs = self._step, self.jobs
        return lanes.lane_of(
            estimate,
            seconds_left=seconds_left,
            uses_threads=True,
            is_product=item.is_product,
            is_running=bool(jobs),
            product_is_running=item.is_product and jobs.have_product,
            others_wait=others_wait,
            has_company=lambda: has_company(item, step.state.ready),
            may_wait=step.may_wait(item),
            departs=lambda: self._may_depart(item),
        )

    # -- single kernels -----------------------------------------------------------------------------

    def start(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Give one kernel, or a region, to a thread."""
        step = self._step
        if item.kind == Kind.REGION:
            step.heavy_items += 1
            call = item.region.call if step.crossing is None else partial(_entered, item.region.call)
            job = Job(call, (args, step.context), {}, self._job_done, self._inbox)
            self.jobs.submit(job, item, iteration)
            return
        held: tuple[Variable, ...] = ()
        if item.mutates:
            held = tuple(dict.fromkeys(value for value in args if isinstance(value, Variable)))
            for variable in held:
                if variable.writer is not None:
                    iteration.entries[item.start : item.stop] = args
                    self._step.ready_when_free(item, iteration, variable)
                    return
            for variable in held:
                variable.acquire(step)
        step.heavy_items += 1
        keywords = {"ctx": step.context} if item.takes_context else {}
        function = item.function if self._meter is None else partial(call_for, self._meter, item.function)
        job = Job(function, grouped(item, args), keywords, self._job_done, self._inbox)
        self.jobs.submit(job, item, iteration, held, args)

    @trio.lowlevel.enable_ki_protection
    def _job_done(self, job: Job) -> None:
        """Handle a finished job; called by the run's system task."""
        found = self.jobs.take(job)
        if found is None:
            return  # the step abandoned it
        item, iteration = found

        def go_on() -> None:
            self._go_on(job, item, iteration)

        if self.ownership.arrive(go_on, is_own=True):
            go_on()
        elif self.ownership.is_closed:
            self._step.wake()

    def _go_on(self, job: Job, item: Item, iteration: IterationState) -> None:
        """Continue after a heavy kernel."""
        step = self._step
        try:
            if job.error is not None:
                if not isinstance(job.error, Exception):
                    raise job.error
                if item.kind == Kind.REGION:
                    raise step.region_failure(job.error, item, iteration) from cause_of(job.error)
                raise step.failure(job.error, item, iteration, job.arguments) from cause_of(job.error)
            # The job must not hold its inputs any longer: a variable that was read counts them.
            arguments, job.arguments = job.arguments, ()
            result, job.result = job.result, None
            if self._meter is not None:
                try:
                    self._meter.count(item, result, arguments)
                except OpError as error:
                    raise step.failure(error, item, iteration, arguments) from None
            del arguments
            step.complete(item, iteration, result)
        except BaseException as error:
            self._step.fail(error)
        finally:
            job.error = None  # its frames refer to the job
        self._step.wake()

    # -- offloaded runs ------------------------------------------------------------------------------

    def _may_depart(self, item: Item) -> bool:
        if self._meter is not None or item.mutates:
            return False
        return (self._has_products() or self._beside_others) and item in self._plan.offloaded_items.free

    def _has_products(self) -> bool:
        """Return whether the plan's products are worth an offloaded run, on the one thread for them."""
        if self._is_worth_it is None:
            self._is_worth_it = self._plan.offloaded_items.are_worth_it()
        return self._is_worth_it

    def depart(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Begin an offloaded run with an item that has its inputs, as soon as the slice is over."""
        self.ownership.depart()
        self.departing = (item, iteration, args)
        self._step.spent = True

    def hand_over(self) -> None:
        """Give the executor to a thread."""
        assert self.departing is not None
        pool = POOL if self._beside_others and not self._has_products() else PRODUCTS
        if pool is PRODUCTS:
            dismiss_team()
        step = self._step
        first, self.departing = self.departing, None
        offloaded = OffloadedRun(self._plan.offloaded_items, step.state, self.ownership, pool.is_wanted)
        self._offloaded_run = step.offloaded_run = offloaded
        self.ownership.hand_over()
        pool.submit(Job(self._run_offloaded, first, {}, self._offloaded_run_over, self._inbox))

    def _run_offloaded(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Run the offloaded run on its thread."""
        step = self._step
        with nullcontext() if step.crossing is None else step.crossing.entered():
            step.ends = perf_counter() + LOOK_SECONDS
            if step.begin_with(item, iteration, args):
                step.run_ready(step.ends)

    @trio.lowlevel.enable_ki_protection
    def _offloaded_run_over(self, job: Job) -> None:
        """Take the executor back from a thread; called by the run's system task."""
        ownership, offloaded = self.ownership, self._offloaded_run
        assert offloaded is not None
        job.arguments = ()
        self._offloaded_run = self._step.offloaded_run = None
        self._step.spent = False
        self.gives_way = ownership.is_recalled
        ownership.give_back()
        offloaded.end()
        if ownership.is_closed:
            self._step.close()
        else:
            if isinstance(job.error, Exception):
                self._step.end_with(job.error)
            elif job.error is not None:
                self._step.fail(job.error)
                self._step.end_with(CancelledError("the step was interrupted"))
            try:
                ownership.take(ownership.outbox)
                ownership.take(ownership.inbox)
            except Exception as error:
                self._step.end_with(error)
        self._step.wake()

    def issue(self, doing: Doing) -> None:
        """Have a function called on the event loop's thread. Called on any thread."""
        action = self.ownership.issue(doing)
        if action == lanes.NOW:
            doing()
        elif action == lanes.CALL:
            self._inbox.put(self._empty_outbox)

    @trio.lowlevel.enable_ki_protection
    def _empty_outbox(self) -> None:
        """Call the event loop's thread, because work waits for it."""
        try:
            self.ownership.take(self.ownership.outbox)
        except Exception as error:
            self._step.end_with(error)

    def give_up(self) -> None:
        """End the step: jobs that only compute are abandoned, and later results are dropped."""
        self.jobs.give_up_pure()
        self.ownership.close()


__all__ = ["Offload", "StepOwner"]
