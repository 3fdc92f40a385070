"""The ready loop: takes ready items and finishes them, for the thread that has the executor.

The owner is the event loop's thread for a slice, or a compute thread until somebody asks for the executor
(`lanes.py`). The *offloaded run* of a compute thread (`offloaded_runs.py`) holds the state in which the two
differ: its variables, and its end. The loop passes on items that need the event loop: at once if the event
loop's thread runs the loop, else through the outbox.

The kind of an item decides how it runs: a kernel is called, a block's body begun or called, a function's body
opened among the items of the step; the state machine handles control flow.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from itertools import repeat
from time import perf_counter
from typing import Any, Final

import numpy as np

from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.resources.variable import Variable
from flowengine.runtime.blocks import CLOCK_SECONDS, BlockRunner
from flowengine.runtime.failures import cause_of
from flowengine.runtime.frames import IterationState
from flowengine.runtime.lanes import ALONE_MICROSECONDS, HEAVY_MICROSECONDS, INLINE, LATER
from flowengine.runtime.member_calls import IGNORED, NUMPY_ERRORS
from flowengine.runtime.offload_policy import bytes_of, estimated
from flowengine.runtime.planning.items import Item, Kind
from flowengine.runtime.planning.signatures import ALWAYS_INLINE, ESTIMATE_BYTES
from flowengine.runtime.resumable_blocks import LoopBody

#: The clock is read once for so many items: reading it costs as much as a tenth of a small kernel.
ITEMS_PER_CLOCK: Final = 16
#: An item has no value to deliver: it has none, has delivered it already, or will deliver it later.
NOT_NOW: Final = object()


class ReadyLoop(BlockRunner):
    """The runner of the ready items of one step."""

    # -- the loop -----------------------------------------------------------------------------------

    def run_ready(self, ends: float) -> None:
        """Run ready items until the turn is over or none is left. Raises the error that ends the step.

        On a device with memory of its own, call it within `crossing.entered()`.
        """
        ready = self.state.ready
        self.ends = ends
        # A thread reads the clock after each item, because its items take long.
        batch = 1 if self.offloaded_run is not None else self.plan.times.items_per_clock or ITEMS_PER_CLOCK
        looked = 0.0
        warnings = NUMPY_ERRORS.set(IGNORED)
        try:
            while ready:
                self._run_batch(batch)
                if not ready:
                    break
                now = perf_counter()
                if self.spent or self.is_cancelled or self._is_spent(now):
                    break
                if looked and (batch < ITEMS_PER_CLOCK or now - looked > CLOCK_SECONDS):
                    batch = self._fit(batch, now - looked)
                looked = now
        finally:
            NUMPY_ERRORS.reset(warnings)
            if self.spent:
                self.spent = False
            self.ends = 0.0  # between slices nothing runs inline

    def _run_batch(self, count: int) -> None:
        """Run so many ready items, or fewer if the turn is spent before.

        Kinds that give one value leave it in `value`, and it is delivered at the end, for all of them alike.
        """
        state = self.state
        ready, root = state.ready, state.root
        along = self.along if self.offloaded_run is None else None
        for _ in repeat(None, count):
            _, _, item, iteration = heappop(ready)
            dead = iteration.dead
            value = NOT_NOW
            kind = item.kind
            if dead is not None and item.local in dead:
                self._run_dead(item, iteration)
            elif kind == 1:  # Kind.BINARY
                value = self._run_binary(item, iteration)
            elif kind == 0:  # Kind.UNARY
                value = self._run_unary(item, iteration)
            elif kind == 5:  # Kind.FORWARD
                entries, start = iteration.entries, item.start
                if item.follows:
                    value = self._followed(item, iteration)
                else:
                    value = entries[start]
                    entries[start] = None
            elif kind == 3 and not item.follows:  # Kind.SWITCH
                self._run_switch(item, iteration)
            elif kind == 4:  # Kind.MERGE
                state.finish_merge(item, iteration)
            elif kind == 2:  # Kind.GENERAL
                value = self._run_general(item, iteration)
            elif kind == 13:  # Kind.REGION
                value = self._run_region(item, iteration)
            elif kind == 14 and along is not None and iteration is root and not item.follows:  # Kind.SEND
                entries, start = iteration.entries, item.start
                value = entries[start]
                try:
                    along(item.route, value)
                except Exception as error:
                    raise self.failure(error, item, iteration, (value,)) from cause_of(error)
                entries[start] = value = None
            else:
                self._run_other(item, iteration)
            if value is not NOT_NOW:
                entries, pending = iteration.entries, iteration.pending
                more = -1
                for local, entry, consumer in item.edges[0]:
                    entries[entry] = value
                    pending[local] = left = pending[local] - 1
                    if not left:
                        heappush(ready, (consumer.order, iteration.serial, consumer, iteration))
                        more += 1
                if item.has_rare_edges:
                    more += state.emit_rare(item, iteration, value)
                if more:
                    iteration.outstanding = more = iteration.outstanding + more
                    if not more:
                        if iteration is root and not iteration.children:
                            state.done = True
                        else:
                            state.iteration_idle(iteration)
            if not ready or self.spent:
                return

    def _run_binary(self, item: Item, iteration: IterationState) -> Any:
        """Run a kernel of two tensors; return its value, or NOT_NOW if it has none yet."""
        entries, start = iteration.entries, item.start
        a = entries[start]
        b = entries[start + 1]
        if self.meter is not None:
            return self._run_general(item, iteration)
        limit = item.times.inline_bytes
        if (a.nbytes > ESTIMATE_BYTES or b.nbytes > ESTIMATE_BYTES) and (
            a.nbytes > limit or b.nbytes > limit
        ):
            entries[start] = entries[start + 1] = None
            self._run_large(item, iteration, [a, b], a.nbytes + b.nbytes)
            return NOT_NOW
        try:
            value = item.function(a, b)
        except Exception as error:
            raise self.failure(error, item, iteration, (a, b)) from cause_of(error)
        entries[start] = entries[start + 1] = None
        return value

    def _run_unary(self, item: Item, iteration: IterationState) -> Any:
        """Run a kernel of one tensor; return its value, or NOT_NOW if it has none yet."""
        entries, start = iteration.entries, item.start
        a = entries[start]
        if self.meter is not None:
            return self._run_general(item, iteration)
        if (
            a.nbytes > ESTIMATE_BYTES and a.nbytes > item.times.inline_bytes
        ):  # the time of fewer does not matter
            entries[start] = None
            self._run_large(item, iteration, [a], a.nbytes)
            return NOT_NOW
        try:
            value = item.function(a)
        except Exception as error:
            raise self.failure(error, item, iteration, (a,)) from cause_of(error)
        entries[start] = None
        return value

    def _run_dead(self, item: Item, iteration: IterationState) -> None:
        """Skip an item with a dead input, unless it runs dead, too."""
        if item.runs_dead:
            self._run_other(item, iteration)
        else:
            self.state.finish_dead(item, iteration)

    def _run_switch(self, item: Item, iteration: IterationState) -> None:
        """Run a Switch whose inputs are no references."""
        entries, start = iteration.entries, item.start
        pred = entries[start + 1]
        if pred.ndim:
            self._predicate(item, iteration, [entries[start], pred])
        self.state.finish_switch(item, iteration, entries[start], 1 if pred else 0)
        entries[start] = None

    def _followed(self, item: Item, iteration: IterationState) -> Any:
        """Return the value of the reference that an item forwards; NOT_NOW while a thread writes it."""
        if self.offloaded_run is None:
            entries, start = iteration.entries, item.start
            variable = entries[start]
            if isinstance(variable, Variable) and variable.writer is None:
                entries[start] = None
                try:
                    return variable.read()
                except Exception as error:
                    raise self.failure(error, item, iteration, None) from cause_of(error)
        elif self.offloaded_run.leaves(item):
            self._leave(item, iteration)
            return NOT_NOW
        args = self._taken(item, iteration)
        return NOT_NOW if args is None else args[0]

    def _run_general(self, item: Item, iteration: IterationState) -> Any:
        """Run a kernel; return its one value, or NOT_NOW if there is none, or not yet."""
        if self.offloaded_run is not None and self.offloaded_run.leaves(item):
            self._leave(item, iteration)
            return NOT_NOW
        if self.begun and self.goes_on(item, iteration):
            return NOT_NOW
        entries, start, stop = iteration.entries, item.start, item.stop
        args = entries[start:stop]
        entries[start:stop] = [None] * len(args)
        if (item.dereference or item.mutates) and not self.resolve(item, iteration, args):
            return NOT_NOW
        limit = item.times.inline_bytes
        if limit < ALWAYS_INLINE and (size := bytes_of(args)) > limit:
            self._run_large(item, iteration, args, size)
            return NOT_NOW
        # Its inputs are small, but it may take long for other reasons.
        started = perf_counter()
        outputs = self.call(item, iteration, args)
        ended = perf_counter()
        item.times.saw((ended - started) * 1e6)
        if ended > self.ends and self.offloaded_run is None:
            self.spent = True
        if item.single:
            return outputs
        self.complete(item, iteration, outputs)
        return NOT_NOW

    def _run_region(self, item: Item, iteration: IterationState) -> Any:
        """Run many nodes at once; return their one value, or NOT_NOW if there is none, or not yet."""
        offloaded = self.offloaded_run
        if offloaded is not None and offloaded.leaves(item):
            self._leave(item, iteration)
            return NOT_NOW
        if self.begun and self.goes_on(item, iteration):
            return NOT_NOW
        if item.times.fastest_seconds > CLOCK_SECONDS and not self.fits(item):
            self.put_back(item, iteration)
            return NOT_NOW
        entries, start, stop = iteration.entries, item.start, item.stop
        args = entries[start:stop]
        entries[start:stop] = [None] * len(args)
        if (item.dereference or item.mutates) and not self.resolve(item, iteration, args):
            return NOT_NOW
        if item.region.is_generator:
            self.begin_body(item, iteration, LoopBody(item, self.context, self.plan.times, self), args)
            return NOT_NOW
        if self.exchange is not None and offloaded is None and self.shares_region(item, iteration, args):
            return NOT_NOW
        outputs = self.call_region(item, iteration, args, self.plan.times)
        if offloaded is None and perf_counter() > self.ends:
            self.spent = True
        if item.single:
            return outputs
        self.complete(item, iteration, outputs)
        return NOT_NOW

    def begin_with(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        """Run an item that has its inputs, or resume one: the first of an offloaded run.

        Returns whether the offloaded run continues.
        """
        with np.errstate(all="ignore"):
            body = None if self.begun is None else self.begun.pop((item.order, iteration.serial), None)
            if body is None:
                self.run_here(item, iteration, args)
            else:
                self.go_on(item, iteration, body)
        return not self.spent and not self.is_over()

    def _fit(self, batch: int, took: float) -> int:
        """Return the number of items before the clock is read next, after so many that took so long."""
        if self.offloaded_run is not None:
            return 1
        if took > CLOCK_SECONDS:
            self.plan.times.items_per_clock = batch = max(1, int(batch * CLOCK_SECONDS / took))
        elif batch < ITEMS_PER_CLOCK:
            self.plan.times.items_per_clock = batch = min(ITEMS_PER_CLOCK, 2 * batch)
        return batch

    def _is_spent(self, now: float) -> bool:
        return now > self.ends if self.offloaded_run is None else self.offloaded_run.is_over()

    # -- one item -----------------------------------------------------------------------------------

    def _run_other(self, item: Item, iteration: IterationState) -> None:
        """Run any live item that is not a plain unary or binary kernel."""
        state = self.state
        kind = item.kind
        if self.offloaded_run is not None and self.offloaded_run.leaves(item):
            self._leave(item, iteration)
            return
        if kind == Kind.TRIGGER:
            state.finish(item, iteration, ())
            return
        if kind >= Kind.SEND:
            self._send_or_receive(item, iteration)
            return
        if self.begun and self.goes_on(item, iteration):
            return
        if self.held and self.resumes(item, iteration):
            return
        args = self._taken(item, iteration)
        if args is None:
            return
        if kind == Kind.FORWARD:
            state.finish_single(item, iteration, args[0])
        elif kind == Kind.SWITCH:
            state.finish_switch(item, iteration, args[0], self._predicate(item, iteration, args))
        elif kind == Kind.NEXT_ITERATION:
            state.finish_next_iteration(item, iteration, args[0])
        elif kind == Kind.ENTER:
            state.finish_enter(item, iteration, args[0])
        elif kind == Kind.EXIT:
            state.finish_exit(item, iteration, args[0])
        elif kind == Kind.CONSTANT:
            state.finish_single(item, iteration, item.value)
        elif kind == Kind.ASYNC:
            self.begin_async(item, iteration, args)
        else:
            assert kind == Kind.CALL
            self.begin_call(item, iteration, args)

    def _taken(self, item: Item, iteration: IterationState) -> list[Any] | None:
        """Take an item's inputs, with references followed; None if it waits for a variable."""
        entries = iteration.entries
        start, stop = item.start, item.stop
        args = entries[start:stop]
        entries[start:stop] = [None] * len(args)
        if (item.dereference or item.mutates) and not self.resolve(item, iteration, args):
            return None
        return args

    def _predicate(self, item: Item, iteration: IterationState, args: list[Any]) -> int:
        pred = args[1]
        if getattr(pred, "ndim", 0):
            error = InvalidArgumentError(
                f"The second input must be a scalar, but it has shape {list(pred.shape)}"
            )
            raise self.failure(error, item, iteration, args)
        return 1 if pred else 0

    # -- kernels ------------------------------------------------------------------------------------

    def _run_large(self, item: Item, iteration: IterationState, args: list[Any], size: int) -> None:
        """Run an item with inputs of so many bytes: on a thread if it is worth it, else here."""
        if self.offloaded_run is not None:
            self.run_here(item, iteration, args)
            return
        if self.meter is not None:
            try:
                self.meter.check_before(item, args)
            except OpError as error:
                raise self.failure(error, item, iteration, args) from None
        estimate = estimated(item, args, size)
        lane = self.lane_of(item, iteration, args, estimate)
        if lane == LATER:
            iteration.entries[item.start : item.stop] = args
            self.put_back(item, iteration)
        if lane != INLINE:
            return
        self.postponed = None
        # An item that may take a slice stays out of regions, which would take more.
        times = item.times
        times.was_heavy = estimate > ALONE_MICROSECONDS
        started = perf_counter()
        self.complete(item, iteration, self.call(item, iteration, args))
        ended = perf_counter()
        times.learn(estimate, (ended - started) * 1e6, times.pace)
        if ended > self.ends:
            self.spent = True
        if item.cost is None and ended - started < HEAVY_MICROSECONDS * 0.25e-6:
            times.inline_bytes = max(times.inline_bytes, size)

    # -- in an offloaded run ------------------------------------------------------------------------

    def _leave(self, item: Item, iteration: IterationState) -> None:
        """Leave an item to the event loop: pass it on and continue, or end the offloaded run with it."""
        if item.kind >= Kind.SEND and not item.dereference:
            self._send_or_receive(item, iteration)
        elif item.kind == Kind.ASYNC and not self.has_variables(item, iteration):
            args = iteration.entries[item.start : item.stop]
            iteration.entries[item.start : item.stop] = [None] * len(args)
            self.issue(partial(self.begin_async, item, iteration, args))
        else:
            self.leave_to_loop(item, iteration)

    def _send_or_receive(self, item: Item, iteration: IterationState) -> None:
        """Run a Send or a Recv, dead or live.

        A Recv is outstanding until its tensor comes; a Send ends at once.
        """
        is_here = self.offloaded_run is None
        if item.kind == Kind.RECEIVE:
            if is_here:
                self.receive(item, iteration)
            else:
                self.issue(partial(self.receive, item, iteration))
            return
        args = iteration.entries[item.start : item.stop]
        iteration.entries[item.start : item.stop] = [None] * len(args)
        is_dead = self.state.is_dead(item, iteration)
        if item.dereference and not is_dead and not self.resolve(item, iteration, args):
            return
        value = None if is_dead else args[0]
        if is_here:
            self.send(item, iteration, value, is_dead)
        else:
            self.issue(partial(self.send, item, iteration, value, is_dead))
        self.state.finish(item, iteration, ())


__all__ = ["ITEMS_PER_CLOCK", "ReadyLoop"]
