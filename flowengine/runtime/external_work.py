"""The outside work of one step: work that the ready loop does not do, and the results that return from it.

Out go items that may wait, Sends and Recvs, kernels and regions that are worth a thread, items whose variable
is being written. In come their results, tensors from other partitions, errors, and the request to end the
step. All of it happens on the event loop's thread; while a compute thread has the executor (`lanes.py`), the
inbox and the outbox pass it on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import trio

from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.accounting import call_for
from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import CancelledError, OpError
from flowengine.resources.variable import Variable
from flowengine.runtime import lanes
from flowengine.runtime.failures import cause_of
from flowengine.runtime.frames import IterationState
from flowengine.runtime.lanes import INLINE, OFFLOADED_RUN, THREAD
from flowengine.runtime.offload import Offload, StepOwner
from flowengine.runtime.offload_policy import is_worth_thread
from flowengine.runtime.planning.items import Item, Kind, grouped
from flowengine.runtime.waiting import ParkedItems, Sleeper


class StepDoors(StepOwner):
    """The outside work of one step that is under way, and the errors that it has met.

    error          the first failure; later ones are its notes
    interrupt      an interruption that is no error of the step: a cancellation, Ctrl-C
    ending         an error that ends the step at its next turn
    nursery        where items that may wait run, once there is one
    needs_nursery  async and heavy items that were ready before
    uses_threads   whether kernels may be worth a thread
    offload        its work on compute threads, once there is any
    parked         items that wait for variables, once there are any
    sleeper        the object that the step waits on, once it has waited
    async_items    the number of items that became tasks; async_running, of those that run
    """

    # A step that runs in one slice needs none of these: they are made on first use.
    error: OpError | None = None
    interrupt: BaseException | None = None
    ending: Exception | None = None
    nursery: trio.Nursery | None = None
    needs_nursery: Sequence[tuple[Item, IterationState, list[Any]]] = ()
    uses_threads = True
    offload: Offload | None = None
    parked: ParkedItems | None = None
    sleeper: Sleeper | None = None
    async_items = async_running = 0
    #: Whether a thread, a task or a variable has been given part of this step's tables.
    has_shared = False

    # -- being woken, and ended ---------------------------------------------------------------------

    def wake(self) -> None:
        """Continue: an item has become ready from outside."""
        if self.sleeper is not None:
            self.sleeper.wake()

    def end_with(self, error: Exception) -> None:
        """End the step, at its next turn, with an error that came from elsewhere."""
        if self.ending is None:
            self.ending = error
        self.recall()

    def recall(self) -> None:
        """Get the executor back as soon as possible, and end the step, wherever it waits."""
        if self.offload is not None:
            self.offload.ownership.recall()
        self.wake()

    def fail(self, error: BaseException) -> None:
        """Record the error of an item, and end the work beside it."""
        self.record(error)
        if self.nursery is not None:
            self.nursery.cancel_scope.cancel()

    def record(self, error: BaseException) -> None:
        """Keep the first failure; later ones become its notes."""
        if isinstance(error, OpError):
            if self.error is None:
                # Objects that an item misses after the session is closed were removed with it.
                self.error = CancelledError(SESSION_CLOSED) if self.is_cancelled else error
            elif error is not self.error:
                self.error.add_note(f"also: {type(error).__name__}: {error}")
        elif self.interrupt is None or isinstance(self.interrupt, trio.Cancelled):
            self.interrupt = error

    def is_waiting(self) -> bool:
        """Return whether work is under way that will wake this step."""
        offload = self.offload
        return bool(
            self.async_running
            or self.parked
            or (offload is not None and (offload.jobs or offload.departing is not None))
            or (self.exchange is not None and self.exchange.waiting)
        )

    # -- variables ----------------------------------------------------------------------------------

    def ready_when_free(self, item: Item, iteration: IterationState, variable: Variable) -> None:
        """Make an item ready when no thread writes the variable any more."""
        if self.parked is None:
            self.has_shared = True
            self.parked = ParkedItems(self.state)
        self.parked.add(item, iteration, variable, self._arrives)

    def _arrives(self, doing: Callable[[], None]) -> None:
        """Have the owner of the executor do something, and the step continue."""
        offload = self.offload
        if offload is None or offload.ownership.arrive(doing):
            doing()
            self.wake()

    # -- threads ------------------------------------------------------------------------------------

    @property
    def is_away(self) -> bool:
        return self.offload is not None and self.offload.is_away

    @property
    def is_departing(self) -> bool:
        return self.offload is not None and self.offload.departing is not None

    def hand_over(self) -> None:
        if self.offload is not None and self.offload.departing is not None:
            self.offload.hand_over()

    def _own_offload(self) -> Offload:
        if self.offload is None:
            self.has_shared = True
            self.offload = Offload(self.plan, self.meter, self)
        return self.offload

    def lane_of(self, item: Item, iteration: IterationState, args: list[Any], estimate: float) -> int:
        """Return the lane of a kernel with large inputs, which has started unless it runs here or later."""
        if estimate <= lanes.HEAVY_MICROSECONDS or not self.uses_threads:
            return INLINE
        offload = self._own_offload()
        left = self.ends - perf_counter()
        lane = offload.lane_of(item, estimate, left, others_wait=bool(self.needs_nursery))
        if lane == OFFLOADED_RUN:
            offload.depart(item, iteration, args)
        elif lane == THREAD:
            self._start_on_thread(item, iteration, args)
        return lane

    def depart(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Let a compute thread begin with this item."""
        self._own_offload().depart(item, iteration, args)

    def shares_region(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        """Whether a region was given to a thread, so that other partitions go on meanwhile."""
        if self.exchange is None or not self.is_worth_thread(item, args):
            return False
        self._start_on_thread(item, iteration, args)
        return True

    def is_worth_thread(self, item: Item, args: list[Any]) -> bool:
        """Return whether a kernel or a region may be worth a thread, by the inputs that it has."""
        return self.uses_threads and is_worth_thread(item, args)

    def _start_on_thread(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        if self.nursery is None:
            self.needs_nursery = [*self.needs_nursery, (item, iteration, args)]
            self.spent = True  # the sooner it starts the better
        else:
            self._own_offload().start(item, iteration, args)

    def issue(self, doing: Callable[[], None]) -> None:
        """Have a function called on the event loop's thread. Called on any thread."""
        if self.offload is None:
            doing()
        else:
            self.offload.issue(doing)

    # -- asynchronous items -------------------------------------------------------------------------

    def begin_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Begin an item that may wait: at once if it need not, else as a task."""
        if item.nowait is not None:
            try:
                if self.meter is None:
                    outputs = item.nowait(*grouped(item, args), **self._keywords(item))
                else:
                    outputs = call_for(self.meter, item.nowait, *grouped(item, args), **self._keywords(item))
            except Exception as error:
                raise self.failure(error, item, iteration, args) from cause_of(error)
            if outputs is not WOULD_WAIT:
                self._complete(item, iteration, outputs)
                return
        if self.nursery is not None:
            self.start(item, iteration, args)
            return
        self.needs_nursery = [*self.needs_nursery, (item, iteration, args)]
        if self.is_away:
            self.wake()

    def _complete(self, item: Item, iteration: IterationState, outputs: Any) -> None:
        if self.meter is not None:
            try:
                self.meter.count(item, outputs)
            except OpError as error:
                raise self.failure(error, item, iteration, None) from None
        if self.is_away:
            self._arrives(partial(self.complete, item, iteration, outputs))
        else:
            self.complete(item, iteration, outputs)

    def _keywords(self, item: Item) -> dict[str, Any]:
        return {"ctx": self.context} if item.takes_context else {}

    def start(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        if item.kind != Kind.ASYNC:
            self._own_offload().start(item, iteration, args)
            return
        assert self.nursery is not None
        self.has_shared = True
        self.async_running += 1
        self.async_items += 1
        self.nursery.start_soon(self._run_async, item, iteration, args, name=item.name)

    async def _run_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Run one asynchronous item in a trio task. It never raises, but records errors."""
        try:
            outputs = await item.function(*grouped(item, args), **self._keywords(item))
            self._complete(item, iteration, outputs)
        except Exception as error:
            self.fail(self.failure(error, item, iteration, args))
        except BaseException as error:
            self.fail(error)
        finally:
            self.async_running -= 1
            self.wake()

    # -- other partitions ---------------------------------------------------------------------------

    def send(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        """Send the value of a Send, or its dead token."""
        try:
            item.function(value, is_dead, iteration.tag(), **self._keywords(item))
        except Exception as error:
            raise self.failure(error, item, iteration, (value,)) from cause_of(error)

    def receive(self, item: Item, iteration: IterationState) -> None:
        """Wait for the value of a Recv."""
        try:
            if self.exchange is not None:
                done = self.exchange.awaited(item, iteration)
                item.function(iteration.tag(), done, **self._keywords(item))
        except Exception as error:
            raise self.failure(error, item, iteration, ()) from cause_of(error)

    def received(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        """Take the value that a Recv waited for."""
        if self.offload is None:
            self._take_in(item, iteration, value, is_dead)
            self.wake()
        else:
            self._arrives(partial(self._take_in, item, iteration, value, is_dead))

    def _take_in(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        if is_dead:
            self.state.finish_dead(item, iteration)
            return
        if self.meter is not None:
            try:
                self.meter.count(item, value)
            except OpError as error:
                self.end_with(self.failure(error, item, iteration, None))
                return
        self.state.finish_single(item, iteration, value)


__all__ = ["StepDoors"]
