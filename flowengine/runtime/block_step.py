"""A step of a plan in blocks, as long as it needs no executor.

A small partition of another process's step is a few blocks and Recvs. Such a step counts what its blocks wait
for and runs them, each as the executor would; it has no task, and nothing that waits for each Recv. As soon
as it turns out to need more, because a tensor is dead, a member worth a thread or a variable being written on
one, it goes on in an executor from where it stands. Decision 16 says what that is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import trio

from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, OpError
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import StepContainer
from flowengine.runtime.failures import cause_of
from flowengine.runtime.frames import IterationState, root_frame
from flowengine.runtime.list_body import run_members
from flowengine.runtime.member_calls import MemberCalls
from flowengine.runtime.offload_policy import is_worth_thread
from flowengine.runtime.planning.items import Item
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.prepared_start import take_results
from flowengine.runtime.receives import EdgeRendezvous, Place
from flowengine.runtime.resumable_blocks import TURN
from flowengine.runtime.waiting import TurnCaller
from flowengine.transport.tensors.routes import Route

if TYPE_CHECKING:
    from flowengine.runtime.taskless import Ended, TasklessStep, TasklessSteps


class BlockStep(MemberCalls, TurnCaller):
    """One run of a plan in blocks; the group of its one partition, for who asks how it stands.

    number, done   the step's, and what is called at its end
    iteration      the values, and what each block waits for
    ends           when the turn is over
    ready          the blocks that may run now; the next at the end
    under_way      a block that had to stop, and how many of its members have run
    come           numbers of the Recvs whose tensor has come, live
    """

    # What most steps never change.
    ends = 0.0
    container: StepContainer | None = None
    under_way: tuple[Item, int] | None = None
    _ending: Exception | None = None
    _dead: tuple[int, ...] = ()
    _continued: TasklessStep | None = None
    #: What comes while the step runs, or stands in line, is found when it goes on.
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
    ) -> None:
        self.plan = plan
        self.number = number
        self.rendezvous = rendezvous
        self.done = done
        self.iteration = iteration = IterationState(root_frame(plan.root), 0, 0)
        if feeds:
            entries = iteration.entries
            for (edges, _), value in zip(plan.feeds, feeds, strict=True):
                for _, entry, _ in edges:
                    entries[entry] = value
        self.ready = plan.sources[::-1]
        self.come: list[int] = []
        assert plan.awaited is not None
        self._awaited = plan.awaited
        #: Blocks and Recvs that are not over.
        self._left = plan.awaited.size
        self._steps = steps
        self._turns = steps.turns

    @cached_property
    def context(self) -> KernelContext:
        """The context that kernels see, made on first use."""
        self.container = StepContainer()
        return self._steps.context_of(self.number, self.rendezvous, self.container)

    def begin(self) -> None:
        """Run as far as that goes now."""
        self._steps.runner.running.add(self)
        if self._awaited.receives:
            self.rendezvous.receive_all(self._awaited.routes, self._come)
        self._go()

    def cancel(self) -> None:
        """End the step with CancelledError."""
        if self._continued is not None:
            self._continued.cancel()
        elif not self._is_over:
            self._fail(CancelledError(SESSION_CLOSED))
            self._go_at_once()

    def request_cancel(self) -> None:
        """As `cancel`, for the session that is being closed."""
        self.cancel()

    # -- how it stands ------------------------------------------------------------------------------

    @property
    def is_asleep(self) -> bool:
        """Whether it has nothing to do but to wait."""
        return self._continued.group.is_asleep if self._continued is not None else not self._inside

    def first(self) -> Place | None:
        """Return the place of the Recvs that are to be given up first; None if there is none."""
        if self._continued is not None:
            return self._continued.group.first()
        return None if self._is_over or len(self.come) == len(self._awaited.receives) else (0, ())

    def give_up(self, first: Place) -> None:
        """Give up the Recvs at this place: their values will not come."""
        if self._continued is None and not self._is_over:
            self._continue()
        if self._continued is not None:
            self._continued.group.give_up(first)

    # -- what comes ---------------------------------------------------------------------------------

    def _come(self, number: int, value: Value, is_dead: bool, error: Exception | None) -> None:
        """Take in the value that the Recv with this number waits for."""
        if self._is_over:
            return
        if self._continued is not None:
            self._continued.come(number, value, is_dead, error)
            return
        if error is not None:
            self._fail(error)
            return
        if is_dead:
            self._dead = (*self._dead, number)
            if not self._inside:
                self._continue()
            return
        iteration = self.iteration
        entries, pending = iteration.entries, iteration.pending
        _, writes, followers = self._awaited.receives[number]
        for place in writes:
            entries[place] = value
        del value
        for local, block in followers:
            left = pending[local] = pending[local] - 1
            if not left:
                self.ready.append(block)
        self.come.append(number)
        self._left -= 1
        if not self._inside:
            self._inside = True
            self._go()

    def _fail(self, error: Exception) -> None:
        if not self._inside:
            self._end(error)
        elif self._ending is None:
            self._ending = error

    # -- as a turn, and what members need: see `list_body.MemberOutside` ------------------------------------

    def is_over(self) -> bool:
        return perf_counter() > self.ends

    def is_worth_thread(self, item: Item, args: list[Any]) -> bool:
        return self._steps.use_threads and is_worth_thread(item, args)

    def send_along(self, item: Item, iteration: IterationState, route: Route, value: Value) -> None:
        try:
            self.rendezvous.send_along(route, value)
        except Exception as error:
            raise self.failure(error, item, iteration, (value,)) from cause_of(error)

    # -- what runs ----------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def run_in_turn(self) -> None:
        """Run the blocks that are ready."""
        self._place = None
        self._inside = True
        try:
            if not self._run_blocks():
                return
        except Exception as error:
            self._end(error)
            return
        if not self._left:
            self._end(None)

    def _run_blocks(self) -> bool:
        """Whether the step still is as it was: it waits for a turn no more, nor goes on elsewhere."""
        ready, iteration = self.ready, self.iteration
        self.ends = self._turns.line.ends
        pending = iteration.pending
        while True:
            if self._ending is not None:
                raise self._ending
            if self._dead:
                self._continue()
                return False
            position = 0
            if self.under_way is not None:
                item, position = self.under_way
                self.under_way = None
            elif ready:
                item = ready.pop()
            else:
                self._inside = False
                return True
            stop = run_members(item.block, position, iteration, self, self, self)
            if stop is not None:
                self.under_way = item, stop.position
                if stop.outcome.kind == TURN:
                    self._defer()
                else:
                    self._continue()
                return False
            self._left -= 1
            for local, follower in item.control or ():
                left = pending[local] = pending[local] - 1
                if not left:
                    ready.append(follower)

    # -- how it ends --------------------------------------------------------------------------------

    def _continue(self) -> None:
        """Go on in an executor."""
        self._continued = self._steps.go_on(self)
        dead, self._dead = self._dead, ()
        # Whoever keeps the step, to give it up, keeps nothing else alive.
        del self.done, self.iteration
        self._continued.resume()
        for number in dead:
            self._continued.come(number, None, True, None)

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        values: list[Any] = []
        if error is None and self.plan.fetches:
            try:
                values = self._steps.spread(take_results(self.plan, self.iteration))
            except OpError as missing:
                error = missing
        if self.container is not None:
            self.container.clear()
        # Whoever keeps the step, to give it up, keeps nothing else alive.
        done, self._ending = self.done, None
        del self.done, self.iteration
        self._steps.ended(self)
        done(values, (), error)


__all__ = ["BlockStep"]
