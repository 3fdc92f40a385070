"""Whole calls: a plan that consists of one item, called many times by one thread.

A step for each record costs more than the work of many records: a context, an executor, the way to a thread
and back for each heavy kernel. If nothing of a function waits, writes, or needs the event loop's thread, all
of it can be one item, and a call of it is a call of Python. Then one thread makes a *run* of calls, one after
the other: one way there and one back.

    calls   c1  c2  c3                  each with arguments of its own
    run     c1, c2, c3 on one thread    an error of c2 is kept as its outcome

A run is in the session's list of steps. A cancelled caller leaves it: it stops before the next call.
docs/decisions/0021-whole-calls.md says why there are two ways to call a function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import perf_counter, thread_time
from typing import Any, Final, TypeAlias

import numpy as np
import trio

from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.accounting import bytes_at_most
from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import ResourceManager, StepContainer
from flowengine.resources.function_calls import CallOutcome
from flowengine.runtime.failures import as_op_error
from flowengine.runtime.frames import IterationState, root_frame
from flowengine.runtime.lanes import ALONE_MICROSECONDS, HEAVY_MICROSECONDS
from flowengine.runtime.member_calls import MemberCalls
from flowengine.runtime.planning.items import Kind
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.resumable_blocks import OneRegion
from flowengine.runtime.step import StepRunner
from flowengine.runtime.threads import POOL, Job, current_inbox
from flowengine.runtime.tracing.recorder import Recorder
from flowengine.runtime.waiting import Sleeper

#: The duration of a run: the way to a thread and back, 0.1 to 0.2 ms if threads wait for Python's lock, is a
#: thirtieth of it. At 8 ms, images gained a little more; kernels of steps would wait longer.
RUN_SECONDS: Final = 0.006
#: More calls than this gain nothing, and hold more elements back.
RUN_CALLS_MAX: Final = 32

_KERNELS: Final = frozenset({Kind.UNARY, Kind.BINARY, Kind.GENERAL})

#: Make the feeds of a plan from a call's arguments; and the caller's results from the plan's.
Take: TypeAlias = Callable[[Sequence[Value]], list[Any]]
Give: TypeAlias = Callable[[list[Any]], tuple[Value, ...]]


class WholePlan:
    """A plan of one item that any thread may call, and the known time of a call.

    seconds   of one call; the minimum counts, but not for ever
    """

    __slots__ = ("plan", "region", "seconds")

    def __init__(self, plan: Plan, region: OneRegion, seconds: float) -> None:
        self.plan = plan
        self.region = region
        self.seconds = seconds

    @classmethod
    def of(cls, plan: Plan, seconds: float) -> WholePlan | None:
        """Return the plan in this form; None if it has more than one item, or one not for any thread.

        seconds   the expected time of a call
        """
        item = plan.items[0] if len(plan.items) == 1 else None
        if item is None or item.is_product or item.mutates:
            return None
        if item.kind == Kind.REGION:
            if item.region.is_generator or not item.is_pure:
                return None
        elif item.kind not in _KERNELS or item.node.is_stateful or item.takes_context:
            return None
        region = OneRegion.of_item(plan, item)
        return None if region is None else cls(plan, region, seconds)

    def took(self, seconds: float) -> None:
        """Record the time of one call of a run."""
        self.seconds = min(seconds, 1.1 * self.seconds) if self.seconds else seconds

    @property
    def run_length(self) -> int:
        """Return the best number of calls in one run."""
        if not self.seconds:
            return 1
        return max(1, min(RUN_CALLS_MAX, int(RUN_SECONDS / self.seconds)))


class CallRun(MemberCalls):
    """One run of calls.

    plan       the plan of the calls
    outcomes   of the calls that have been made
    """

    def __init__(
        self,
        whole: WholePlan,
        context: KernelContext,
        calls: Sequence[Sequence[Value]],
        take: Take,
        give: Give,
    ) -> None:
        self.plan = whole.plan
        self.outcomes: list[CallOutcome] = []
        self._whole = whole
        self._context = context
        self._calls = calls
        self._take, self._give = take, give
        self._sleeper = Sleeper()
        self._is_over = False
        self._is_left = False
        self._is_closed = False
        self._fault: BaseException | None = None

    @property
    def context(self) -> KernelContext:
        return self._context

    # -- on the thread that makes the calls ------------------------------------------------------------

    def work(self) -> None:
        """Make the calls, one after the other, until nobody wants more."""
        # The thread's own time: threads wait for cores, and for Python's lock.
        started = thread_time()
        iteration = IterationState(root_frame(self.plan.root), 0, 0)
        for arguments in self._calls:
            if self._is_left or self._is_closed:
                return
            self.outcomes.append(self._outcome(arguments, iteration))
        self._whole.took((thread_time() - started) / len(self._calls))

    def _outcome(self, arguments: Sequence[Value], iteration: IterationState) -> CallOutcome:
        try:
            results = self._results(arguments, iteration)
        except Exception as error:
            return CallOutcome((), as_op_error(error), 0)
        return CallOutcome(results, None, sum(map(bytes_at_most, results)))

    def _results(self, arguments: Sequence[Value], iteration: IterationState) -> tuple[Value, ...]:
        values = self._whole.region.call(self._take(arguments), self, iteration, self.plan.times)
        assert values is not None, "nothing of it is a variable"
        return self._give(values)

    # -- on the event loop's thread -------------------------------------------------------------------

    def request_cancel(self) -> None:
        """End the run, because the session is being closed."""
        self._is_closed = True
        self._sleeper.wake()

    async def on_thread(self) -> None:
        """Have a thread make the calls. If cancelled, it leaves the rest."""
        job = Job(self.work, (), {}, self._done, current_inbox())
        POOL.submit(job)
        try:
            while not (self._is_over or self._is_closed):
                await self._sleeper.sleep()
        finally:
            # A kernel that works on many strings checks the job, too.
            self._is_left = job.is_given_up = True
        if self._fault is not None:
            raise self._fault

    @trio.lowlevel.enable_ki_protection
    def _done(self, job: Job) -> None:
        self._is_over = True
        self._fault, job.error = job.error, None
        self._sleeper.wake()

    def result(self) -> list[CallOutcome]:
        """Return the outcomes of all calls; CancelledError if the session was closed meanwhile."""
        if len(self.outcomes) < len(self._calls):
            raise CancelledError(SESSION_CLOSED)
        return self.outcomes


class TracedCallRun(CallRun):
    """A run of calls in which each call is recorded, beside a traced step."""

    def follow_with(self, recorder: Recorder, name: str) -> None:
        """Have a recorder follow this run of a function, which has not begun."""
        self._recorder = recorder
        self._name = name

    def _outcome(self, arguments: Sequence[Value], iteration: IterationState) -> CallOutcome:
        began = perf_counter()
        try:
            return super()._outcome(arguments, iteration)
        finally:
            thread = threading.current_thread().name
            self._recorder.called(self._name, self.context.device, thread, began)


async def outcomes_of(
    runner: StepRunner,
    whole: WholePlan,
    calls: Sequence[Sequence[Value]],
    sequences: ResourceManager | None,
    doors: tuple[Take, Give],
    *,
    is_beside_others: bool,
    name: str = "",
) -> list[CallOutcome]:
    """Run calls and return their outcomes, in order: on a thread if that pays, else here, in a turn.

    sequences          the positions of random nodes, if they are not with the resources
    is_beside_others   whether there is other work meanwhile, so that a thread pays earlier
    name               that of the function, for traces

    Raises trio.Cancelled if the caller is cancelled, and CancelledError if the session is closed; an error of
    a call is its outcome.
    """
    container = StepContainer()
    context = KernelContext(
        resources=runner.resources,
        step_container=container,
        device=runner.device.name,
        step_id=runner.new_step_id(),
        functions=whole.plan.caller,
        sequences=sequences,
        **runner.common,
    )
    run = CallRun(whole, context, calls, *doors)
    if runner.recorder is not None:
        run = TracedCallRun(whole, context, calls, *doors)
        run.follow_with(runner.recorder, name)
    runner.running.add(run)
    limit = HEAVY_MICROSECONDS if is_beside_others or len(calls) > 1 else ALONE_MICROSECONDS
    try:
        if whole.seconds * len(calls) * 1e6 > limit:
            await trio.lowlevel.checkpoint_if_cancelled()
            await run.on_thread()
        else:
            await _in_turn(runner, run)
        return run.result()
    finally:
        runner.running.discard(run)
        container.clear()
        for call in tuple(runner.ended):
            call()


async def _in_turn(runner: StepRunner, run: CallRun) -> None:
    turns = runner.turns
    ticket = None
    if perf_counter() < turns.line.begins_until:
        await trio.lowlevel.checkpoint_if_cancelled()
    else:
        ticket = await turns.begin()
    try:
        with np.errstate(all="ignore"):
            run.work()
    finally:
        if ticket is not None:
            turns.end(ticket)


__all__ = ["RUN_CALLS_MAX", "CallRun", "Give", "Take", "WholePlan", "outcomes_of"]
