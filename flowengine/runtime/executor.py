"""The executor: one step of a plan, from its feeds to its end.

The state machine says which items may run (`state.py`), `lanes.py` where, and `ready_loop.py` runs them.
Small synchronous kernels and blocks run one after another in the task that called the step, in the rest of
the slice of 2 ms that all steps share (`turns.py`). Heavy ones run on a thread (`offload.py`). Asynchronous
ones are trio tasks of a nursery, which is opened when the first of them, or the first heavy item, is ready: a
step without any needs no nursery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import trio

from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.errors import CancelledError
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import ResourceManager, StepContainer
from flowengine.runtime.external_work import StepDoors
from flowengine.runtime.failures import cannot_go_on, first_of
from flowengine.runtime.memory import MemoryMeter
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.prepared_start import PreparedStart, start_of, take_results
from flowengine.runtime.receives import ReceiveTable
from flowengine.runtime.turn_queue import Ticket
from flowengine.runtime.turns import Turns, current_turns
from flowengine.runtime.waiting import Sleeper

#: Makes the context of a step from its plan and its container.
NewContext: TypeAlias = Callable[[Plan, StepContainer], KernelContext]


class Executor(StepDoors):
    """One run of a plan. It is made for a step and discarded with it.

    state       the items that may run
    context     the context of the kernels, made on first use
    container   the TensorArrays and stacks of a step that made its own context; None before it has
    error       the first failure; later ones are its notes
    """

    #: Whether Recvs outside of loops wait at the edges of the rendezvous, all at once.
    at_edges = False
    #: Whether variables are looked up whose places the plan will know from then on.
    looks_up = False
    container: StepContainer | None = None
    _generation: int
    _prepared: PreparedStart

    def __init__(
        self,
        plan: Plan,
        resources: ResourceManager,
        *,
        context: KernelContext | None = None,
        new_context: NewContext | None = None,
        use_threads: bool = True,
        meter: MemoryMeter | None = None,
        exchange: ReceiveTable | None = None,
        turns: Turns | None = None,
        ticket: Ticket | None = None,
    ) -> None:
        """
        context       the context of the kernels; or else
        new_context   makes it, on first use
        ticket        the step's place in line, if it had to wait for a turn to begin
        """
        self.plan = plan
        self._resources = resources
        self._turns = turns if turns is not None else current_turns()
        #: The step's place in line, once it has waited for anything.
        self._ticket = ticket
        self._new_context = new_context
        if context is not None:
            self.context = context
            self.crossing = context.crossing
        # The class has the values that most steps keep.
        if not use_threads:
            self.uses_threads = False
        if meter is not None:
            self.meter = meter
        if exchange is not None:
            self.exchange = exchange

    @cached_property
    def context(self) -> KernelContext:
        self.container = StepContainer()
        made = self.make_context(self.container)
        made.memory = self.meter
        return made

    def make_context(self, container: StepContainer) -> KernelContext:
        """Make the context of the kernels."""
        assert self._new_context is not None
        return self._new_context(self.plan, container)

    # -- the step -----------------------------------------------------------------------------------

    async def run(self, feeds: list[Any] | None, *, has_turn: bool = True) -> None:
        """Run the plan to its end with one value for each fed port.

        feeds      None for a step whose first slice is over
        has_turn   the caller has waited for a turn; otherwise this method does

        Raises the first error of an item, with the others as its notes, or trio.Cancelled. If cancelled, it
        stops before the next item; it waits for a kernel that writes, and abandons a pure one on a thread. A
        step whose last item has finished by then has its results, as a receive that is done has its value.
        """
        try:
            if not has_turn:
                await self._turns.arrive(self._own_ticket())
                self._check_going_on()
            if feeds is not None:
                self._start(feeds)
            if feeds is None or not self._run_slice(self._turns.line.ends):
                await self._run_on()
        finally:
            if self._ticket is not None or self.offload is not None or self.parked:
                await self._wind_up()
            if self.begun or self.held:
                self.close()
            # An error refers to the frames that it came through, and they refer to this step: while the step
            # refers to the error, too, neither is freed before the collector runs.
            self.ending = None
        if self.error is not None or self.looks_up:
            self._conclude()

    def _start(self, feeds: Sequence[Any]) -> None:
        """Begin with these values, one for each fed port: nothing has run yet."""
        plan = self.plan
        root, sources = plan.root, plan.sources
        if plan.handles.has_any:
            root, sources = plan.handles.start(root, sources, self._resources)
            if root is plan.root:
                self.looks_up = True
                self._generation = self._resources.generation
        prepared = root.edge_start if self.at_edges else root.start
        if prepared is None:
            prepared = start_of(plan, root, sources, at_edges=self.at_edges)
        self._prepared = prepared
        self.state = prepared.begin(feeds)

    def _conclude(self) -> None:
        """Raise the step's error, or remember the variables that a successful step has looked up."""
        if self.error is not None:
            error, self.error = self.error, None
            try:
                raise error
            finally:
                del error
        plan = self.plan
        plan.handles.keep(plan.root, plan.sources, self.context, self._generation)

    def results(self) -> list[Any]:
        """Take the fetched values, in order, out of a step that ended well: once.

        Raises InvalidArgumentError for a value that is dead or never came.
        """
        state = self.state
        del self.state  # it belongs to another step from now on
        values = take_results(self.plan, state.root) if self.plan.fetches else []
        if not self.has_shared:
            self._prepared.take_back(state)
        return values

    # -- a step's task ------------------------------------------------------------------------------

    async def _run_on(self) -> None:
        """Run the step after its first slice, when it may yield, wait and spawn."""
        while not self.needs_nursery:
            self.hand_over()
            if not self.is_away and self.state.ready:
                await self._yield()
            else:  # a thread has it, or all remaining items are parked
                await self._wait_for_progress()
            if not self.is_away and self._run_slice(self._turns.line.ends):
                return
        try:
            async with trio.open_nursery() as nursery:
                self.nursery = nursery
                # Only exceptions that trio itself raises may leave through the nursery: errors of
                # items are recorded, so that the caller never sees an ExceptionGroup.
                try:
                    await self._drive()
                except BaseException as error:
                    self.record(error)
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            self.record(first_of(group))
        finally:
            self.nursery = None
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None and not isinstance(interrupt, trio.Cancelled):
            try:
                raise interrupt
            finally:
                del interrupt
        if self.error is None and interrupt is not None and not self.state.done:
            # The caller's own cancellation: raised anew, here, where its scope encloses it.
            interrupt = None
            await trio.lowlevel.checkpoint_if_cancelled()
            raise CancelledError("the step was cancelled")

    async def _drive(self) -> None:
        while True:
            waiting, self.needs_nursery = [*self.needs_nursery], ()
            waiting.reverse()
            while waiting:
                # Popped, so that this frame, which sleeps next, keeps none of their inputs alive.
                self.start(*waiting.pop())
            if not self.is_away and self._run_slice(self._turns.line.ends) and not self.needs_nursery:
                return
            if self.needs_nursery:
                continue
            self.hand_over()
            if self.is_away:
                await self._wait_for_progress()
            elif self.state.ready:
                await self._yield()
            elif self.is_waiting():
                await self._wait_for_progress()

    async def _yield(self) -> None:
        await self._turns.pause(self._own_ticket())
        self._check_going_on()

    def _own_ticket(self) -> Ticket:
        if self._ticket is None:
            self._ticket = self._turns.new_ticket()
        return self._ticket

    def _end_ticket(self) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._turns.end(ticket)

    async def _wait_for_progress(self) -> None:
        """Sleep until an async item, a heavy one, a parked one or a received tensor wakes this step."""
        offload = self.offload
        has_jobs = offload is not None and bool(offload.jobs)
        if (
            self.exchange is not None
            and not self.is_away
            and not (self.async_running or has_jobs or self.parked)
        ):
            if self.ending is not None:
                raise self.ending
            if self.exchange.is_settled():
                return
        ticket = self._own_ticket()
        self._turns.stop(ticket)
        await self.own_sleeper().sleep()
        offload = self.offload
        if offload is not None:
            if offload.gives_way:
                offload.gives_way = False
                await trio.lowlevel.checkpoint()
            if offload.ownership.is_closed:
                return  # nothing runs any more
        await self._turns.arrive(ticket)
        self._check_going_on()

    def _check_going_on(self) -> None:
        if self.is_cancelled:
            raise CancelledError(SESSION_CLOSED)
        if self.ending is not None:
            raise self.ending

    def own_sleeper(self) -> Sleeper:
        if self.sleeper is None:
            self.sleeper = Sleeper()
        return self.sleeper

    # -- ending -------------------------------------------------------------------------------------

    def recall(self) -> None:
        """Get the executor back as soon as possible, and end the step, wherever it waits."""
        if self._ticket is not None:
            self._turns.call_off(self._ticket)
        super().recall()

    def request_cancel(self) -> None:
        """End the step with CancelledError, because the session is being closed."""
        self.is_cancelled = True
        self.recall()

    async def _wind_up(self) -> None:
        """Leave nothing behind: wait for kernels that write, abandon those that only compute."""
        try:
            if self.parked is not None:
                self.parked.forget()
            offload = self.offload
            if offload is not None and (offload.jobs or offload.is_away):
                offload.give_up()
                with trio.CancelScope(shield=True):
                    while offload.must_be_waited_for:
                        await self._wait_for_progress()
        finally:
            # The frames of one error refer to the other: as long as both live, so do their values.
            self.offload = None
            self._end_ticket()

    # -- slices -------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def _run_slice(self, ends: float) -> bool:
        """Run ready items until the slice ends; return whether the step is done."""
        if self.crossing is None:
            self.run_ready(ends)
        else:
            with self.crossing.entered():
                self.run_ready(ends)
        return (self.state.done and not self.has_shared) or self._has_ended()

    def _has_ended(self) -> bool:
        """Return whether the step is done, after a slice.

        Raises if it is not, and nothing will ever be ready.
        """
        state = self.state
        if state.done:
            return not (self.async_running or (self.offload is not None and self.offload.jobs))
        if not state.ready and not self.needs_nursery and not self.is_waiting():
            wrong = cannot_go_on(self.plan, state) if self.ending is None else self.ending
            if wrong is not None:
                raise wrong
            return True
        return False


__all__ = ["Executor", "NewContext"]
