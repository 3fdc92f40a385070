"""The calls of blocks and functions: a plain block is called, any other is begun, resumed and settled.

A block that outlasts its turn, or waits for a variable, is put among those that have `begun`. Its item is
made ready again, and the owner of the executor then resumes it. This module also has the requests that an
owner may make to others (`Outside`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappush
from time import perf_counter
from typing import Any, Final, Protocol

from flowengine.core.arrays import Value
from flowengine.core.errors import OpError
from flowengine.kernels.context import StepTransfers
from flowengine.resources.variable import Variable
from flowengine.runtime.failures import cause_of
from flowengine.runtime.frames import IterationState
from flowengine.runtime.lanes import ALONE_MICROSECONDS, HEAVY_MICROSECONDS
from flowengine.runtime.member_calls import MemberCalls
from flowengine.runtime.offloaded_runs import LOOK_SECONDS, OffloadedRun
from flowengine.runtime.planning.functions import Done
from flowengine.runtime.planning.items import Item, Kind
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.timings import NEVER_RAN
from flowengine.runtime.prepared_start import take_results
from flowengine.runtime.receives import ReceiveTable
from flowengine.runtime.resumable_blocks import DONE, PARKED, Body, Outcome, SequenceBody
from flowengine.runtime.state import ExecutorState
from flowengine.transport.tensors.routes import Route

#: The clock is read about so often: a slice ends on time, give or take this.
CLOCK_SECONDS: Final = 100e-6


class Outside(Protocol):
    """The operations that a ready loop leaves to its subclass.

    They are called on the event loop's thread, except for `issue`.
    """

    def begin_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Begin an item that may wait."""

    def send(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        """Send the value of a Send, or its dead token."""

    def receive(self, item: Item, iteration: IterationState) -> None:
        """Wait for the value of a Recv."""

    def lane_of(self, item: Item, iteration: IterationState, args: list[Any], estimate: float) -> int:
        """Return the lane of a kernel with large inputs, which has started unless it runs here or later."""

    def shares_region(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        """Whether a region was given to a thread, so that other partitions go on meanwhile."""

    def ready_when_free(self, item: Item, iteration: IterationState, variable: Variable) -> None:
        """Make an item ready when no thread writes the variable any more."""

    def depart(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Let a compute thread begin with this item."""

    def issue(self, doing: Callable[[], None]) -> None:
        """Have a function called on the event loop's thread. Called on any thread."""


class BlockRunner(MemberCalls, Outside):
    """The runner of a step's blocks and calls. It is also the *turn* that bodies ask for their time limit.

    state          the items that may run
    context        the context of the kernels
    meter          counts the step's memory, if anybody asks
    ends           the time from which on the turn may be over: see `is_over`
    spent          whether the turn is over already
    is_cancelled   whether the step must end
    offloaded_run  the compute thread's, if one runs the step; None on the event loop's thread
    crossing       copies values into the memory of a device and out of it; None on the host
    exchange       the values that a partition of a step awaits from others; None for a step of one partition
    along          sends a live value along an edge, outside any loop; None if each Send names its key
    begun          {(order, serial of the iteration): a body that has begun and is not done}; None if empty
    held           {a call whose turn ended between two bodies: its continuation}; None as for `begun`
    postponed      the item that would not have fitted into the last slice
    heavy_items    the number of kernels and regions that were worth a thread

    """

    state: ExecutorState
    # Most steps never change these: setting them for each step would cost a null step a twentieth.
    ends = 0.0
    spent = False
    is_cancelled = False
    heavy_items = 0
    offloaded_run: OffloadedRun | None = None
    postponed: Item | None = None
    crossing: StepTransfers | None = None
    exchange: ReceiveTable | None = None
    along: Callable[[Route, Value], None] | None = None
    begun: dict[tuple[int, int], Body] | None = None
    held: dict[tuple[int, int], Callable[[], None]] | None = None

    def close(self) -> None:
        """Release the bodies that have begun, because the step is over."""
        begun, self.begun, self.held = self.begun, None, None
        if begun is not None:
            for body in begun.values():
                body.close()

    # -- as a turn ----------------------------------------------------------------------------------

    def is_over(self) -> bool:
        """Return whether a body must stop between two members; asked from `ends` on."""
        if self.is_cancelled:
            return True
        if self.offloaded_run is None:
            return perf_counter() > self.ends
        self.ends = perf_counter() + LOOK_SECONDS
        return self.offloaded_run.is_over()

    def complete(self, item: Item, iteration: IterationState, outputs: Any) -> None:
        """Hand a kernel's result to the state machine."""
        if item.single:
            self.state.finish_single(item, iteration, outputs)
        elif outputs is None:
            self.state.finish(item, iteration, ())
        else:
            self.state.finish(item, iteration, outputs)

    def may_wait(self, item: Item) -> bool:
        """Return whether an item can be put back: once, and not if it followed references."""
        return self.postponed is not item and not item.dereference and not item.mutates

    def put_back(self, item: Item, iteration: IterationState) -> None:
        """Put an item that still has its inputs at the beginning of the next slice."""
        self.postponed = item
        self.spent = True
        heappush(self.state.ready, (item.order, iteration.serial, item, iteration))

    def note(self, item: Item, seconds: float) -> None:
        item.times.microseconds = took = 1e6 * seconds
        if took > HEAVY_MICROSECONDS:
            self.heavy_items += 1
            if took > ALONE_MICROSECONDS:
                item.times.was_heavy = True

    # -- blocks -------------------------------------------------------------------------------------

    def fits(self, item: Item) -> bool:
        """Return whether a region is expected to end within this slice, or was put back already."""
        fastest = item.times.fastest_seconds
        if self.offloaded_run is not None or fastest <= CLOCK_SECONDS or not self.ends:
            return True
        if self.postponed is item:
            self.postponed = None
            return True
        return fastest == NEVER_RAN or perf_counter() + fastest <= self.ends

    def begin_body(self, item: Item, iteration: IterationState, body: Body, args: list[Any]) -> None:
        started = perf_counter()
        try:
            outcome = body.begin(args, self)
        except Exception as error:
            raise self._body_failure(error, item, iteration, args) from cause_of(error)
        self._settle(item, iteration, body, outcome, started)

    def go_on(self, item: Item, iteration: IterationState, body: Body) -> None:
        started = perf_counter()
        try:
            outcome = body.resume(self)
        except Exception as error:
            raise self._body_failure(error, item, iteration, None) from cause_of(error)
        self._settle(item, iteration, body, outcome, started)

    def goes_on(self, item: Item, iteration: IterationState) -> bool:
        """Resume an item that has begun: a sequence on a compute thread, a loop here."""
        begun = self.begun
        key = (item.order, iteration.serial)
        if begun is None or key not in begun:
            return False
        if self.offloaded_run is None and item.kind < Kind.REGION:
            self.depart(item, iteration, [])
        else:
            self.go_on(item, iteration, begun.pop(key))
        return True

    def _settle(
        self, item: Item, iteration: IterationState, body: Body, outcome: Outcome, started: float
    ) -> None:
        """Act on the outcome of a body that has run so far: complete, open, park or queue its item."""
        body.seconds += perf_counter() - started
        if outcome.kind == DONE:
            if self.offloaded_run is not None:
                self.note(item, body.seconds)
            self.complete(item, iteration, outcome.value)
            return
        self.keep_begun(item, iteration, body)
        if outcome.kind == PARKED:
            self.ready_when_free(item, iteration, outcome.value)
            return
        heappush(self.state.ready, (item.order, iteration.serial, item, iteration))
        self.spent = True

    def keep_begun(self, item: Item, iteration: IterationState, body: Body) -> None:
        """Remember a body that has begun, for the time when its item is ready again."""
        if self.begun is None:
            self.begun = {}
        self.begun[item.order, iteration.serial] = body

    def _body_failure(self, error: Exception, item: Item, iteration: IterationState, args: Any) -> OpError:
        if item.kind == Kind.REGION:
            return self.region_failure(error, item, iteration)
        return self.failure(error, item, iteration, args)

    # -- on a compute thread, and variables ---------------------------------------------------------

    def run_here(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Run a kernel on the compute thread that has the executor, if all are worth it."""
        offloaded = self.offloaded_run
        assert offloaded is not None
        layers = offloaded.items.sequences.get(item)
        if layers is not None:
            body = SequenceBody(layers)
            self.begin_body(item, iteration, body, args)
            return
        started = perf_counter()
        self.complete(item, iteration, self.call(item, iteration, args))
        self.note(item, perf_counter() - started)

    def has_variables(self, item: Item, iteration: IterationState) -> bool:
        return any(isinstance(value, Variable) for value in iteration.entries[item.start : item.stop])

    def leave_to_loop(self, item: Item, iteration: IterationState) -> None:
        """Leave an item, with its inputs in place, to the event loop, which runs it first."""
        assert self.offloaded_run is not None
        self.offloaded_run.keep((item.order, iteration.serial, item, iteration))
        self.spent = True

    def resolve(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        """Follow references to values. False if the item was put back: another thread writes the variable."""
        if self.offloaded_run is not None:
            try:
                is_had = self.offloaded_run.resolve(item, args)
            except Exception as error:
                raise self.failure(error, item, iteration, None) from cause_of(error)
            if not is_had:
                iteration.entries[item.start : item.stop] = args
                self.leave_to_loop(item, iteration)
            return is_had
        variable = self.follow(item, iteration, args)
        if variable is not None:
            iteration.entries[item.start : item.stop] = args
            self.ready_when_free(item, iteration, variable)
        return variable is None

    # -- function calls -----------------------------------------------------------------------------

    def begin_call(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Start a function's body; the item is finished when the body is."""

        def finish(results: Sequence[Any]) -> None:
            outputs = results[0] if item.single else tuple(results)
            self.complete(item, iteration, outputs)

        try:
            item.call.begin(partial(self.run_body, item, iteration, args), args, finish)
        except Exception as error:
            raise self.failure(error, item, iteration, args) from cause_of(error)

    def run_body(
        self,
        item: Item,
        iteration: IterationState,
        args: list[Any],
        plan: Plan,
        values: Sequence[Any],
        done: Done,
    ) -> Sequence[Any] | None:
        """Run a body that a call needs: see `RunBody`. Errors name the call, and its arguments `args`."""
        whole = plan.one_region
        if whole is not None and perf_counter() < self.ends:
            results = whole.call(values, self, iteration, plan.times)
            if results is not None:
                return results

        def ended(body: IterationState) -> None:
            try:
                done(take_results(plan, body))
            except Exception as error:
                raise self.failure(error, item, iteration, args) from cause_of(error)

        body = self.state.open_body(
            plan.root, plan.sources, plan.feeds, values, plan.constants, iteration, ended
        )
        if body.outstanding:
            return None
        results = take_results(plan, body)
        if self.offloaded_run is None and self.is_over():
            self._hold(item, iteration, partial(done, results))
            return None
        return results

    def _hold(self, item: Item, iteration: IterationState, goes_on: Callable[[], None]) -> None:
        """Pause within a call: bodies with nothing to do would otherwise follow each other for ever."""
        if self.held is None:
            self.held = {}
        self.held[item.order, iteration.serial] = goes_on
        heappush(self.state.ready, (item.order, iteration.serial, item, iteration))
        self.spent = True

    def resumes(self, item: Item, iteration: IterationState) -> bool:
        """Resume a call that paused, if the item is one."""
        goes_on = None if self.held is None else self.held.pop((item.order, iteration.serial), None)
        if goes_on is None:
            return False
        try:
            goes_on()
        except Exception as error:
            raise self.failure(error, item, iteration, None) from cause_of(error)
        return True


__all__ = ["CLOCK_SECONDS", "BlockRunner", "Outside"]
