"""The executor: runs what the state machine says is ready.

Where an item runs depends on its kernel. Small synchronous kernels run one after another in the task that
called the step, in slices of at most 2 ms. Heavy ones run on a worker thread (`threads.py`). Asynchronous
ones are trio tasks of a nursery, which is opened when the first of them, or the first heavy item, is
ready: a step without any costs no nursery.

An executor has one owner at a time: the event loop's thread, or for a stretch (`stretches.py`) a worker
thread, and what comes from outside meanwhile is put off. Other worker threads only compute and hand back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from time import perf_counter
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import CancelledError, InvalidArgumentError, OpError
from flowengine.kernels.context import KernelContext
from flowengine.kernels.providers import dismiss_team
from flowengine.resources.variable import Variable
from flowengine.runtime.exchange import Exchange
from flowengine.runtime.failures import as_op_error, first_of, locate, locate_at
from flowengine.runtime.frames import IterationState
from flowengine.runtime.functions import Done
from flowengine.runtime.heavy import ALONE_MICROSECONDS, HEAVY_MICROSECONDS, HeavyJobs, bytes_of, estimated
from flowengine.runtime.items import Item, Kind, grouped
from flowengine.runtime.learned import NEVER_RAN
from flowengine.runtime.memory import MemoryMeter
from flowengine.runtime.plan import Plan
from flowengine.runtime.region_loops import RegionLoop
from flowengine.runtime.results import take_results
from flowengine.runtime.signatures import ALWAYS_INLINE
from flowengine.runtime.state import ExecutorState
from flowengine.runtime.stretches import Stretch
from flowengine.runtime.threads import PRODUCTS, Job, current_inbox

#: The event loop belongs to the host: a slice of inline work ends after this many seconds.
SLICE_SECONDS: Final = 0.002
#: The clock is read once for so many items: reading it costs as much as a tenth of a small kernel.
ITEMS_PER_CLOCK: Final = 16
#: A region of one partition that takes less is not worth it either, though others could run meanwhile.
HEAVY_REGION_SECONDS: Final = 250e-6
#: How a step stands that runs without a task of its own.
DONE, WAITING, NEEDS_TASK = range(3)


class Executor:
    """One run of a plan. Made for a step and thrown away with it.

    state      which items may run
    device     name for error messages
    error      the first failure; later ones are its notes
    """

    __slots__ = (
        "_abandoned",
        "_async_running",
        "_callbacks",
        "_context",
        "_deadline",
        "_departing",
        "_ending",
        "_exchange",
        "_generation",
        "_gives_way",
        "_has_stretches",
        "_interrupt",
        "_jobs",
        "_keywords",
        "_listener",
        "_meter",
        "_needs_nursery",
        "_nursery",
        "_parked",
        "_paused",
        "_postponed",
        "_slice_spent",
        "_sources",
        "_stretch",
        "_task",
        "_use_threads",
        "_yielded_at",
        "async_items",
        "cancel_requested",
        "device",
        "error",
        "heavy_items",
        "plan",
        "state",
    )

    def __init__(
        self,
        plan: Plan,
        context: KernelContext,
        *,
        use_threads: bool = True,
        meter: MemoryMeter | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        self.plan = plan
        self._generation = context.resources.generation
        root, self._sources = plan.handles.start(plan.root, plan.sources, context.resources)
        self.state = ExecutorState(root)
        self.device = context.device
        self.error: OpError | None = None
        self.heavy_items = 0
        self.async_items = 0
        self.cancel_requested = False
        self._context = context
        self._keywords: dict[str, Any] = {"ctx": context}
        self._use_threads = use_threads
        self._meter = meter
        #: What a partition of a step waits for from the others; None for a step of one partition.
        self._exchange = exchange
        #: What ends the step at its next turn.
        self._ending: Exception | None = None
        self._interrupt: BaseException | None = None
        self._nursery: trio.Nursery | None = None
        #: Async and heavy items that were ready before there was a nursery.
        self._needs_nursery: list[tuple[Item, IterationState, list[Any]]] = []
        self._async_running = 0
        #: Heavy kernels on worker threads.
        self._jobs = HeavyJobs()
        self._abandoned = False
        #: The step's own task while it waits for async or heavy items.
        self._task: trio.lowlevel.Task | None = None
        #: What is called instead, where no task waits: see `go_on`.
        self._listener: Callable[[], None] | None = None
        self._parked = 0
        #: What takes back the parked items' wish to be woken.
        self._callbacks: dict[Callable[[], None], Variable] = {}
        self._yielded_at = 0.0
        #: When the present slice should end.
        self._deadline = 0.0
        #: Loops of regions between two slices: {(order, serial of the iteration): the loop}
        self._paused: dict[tuple[int, int], RegionLoop] = {}
        self._slice_spent = False
        #: A kernel that would not have fitted into the last slice.
        self._postponed: Item | None = None
        #: What a thread runs by itself; meanwhile everything here but this is the thread's.
        self._stretch: Stretch | None = None
        #: One was called back: whoever waits for its variables has them before the next.
        self._gives_way = False
        #: Whether the plan is worth one; None until that matters.
        self._has_stretches: bool | None = None
        #: What the next one begins with.
        self._departing: tuple[Item, IterationState, list[Any]] | None = None

    # -- the step -----------------------------------------------------------------------------------

    async def run(self, feeds: list[Any]) -> None:
        """Run the plan to its end with one value a fed port.

        Raises the first error of an item, the others as its notes, or trio.Cancelled. Cancelled, it stops
        before the next item; a kernel that writes is waited for, a pure one on a thread is left alone.
        """
        try:
            if not self._begin(feeds):
                await self._run_on()
        finally:
            if self._jobs or self._callbacks or self._stretch is not None:
                await self._wind_up()
        self._conclude()

    def _begin(self, feeds: list[Any]) -> bool:
        """The first slice; True if it was the whole step."""
        supplied = [(*edges, value) for edges, value in zip(self.plan.feeds, feeds, strict=True)]
        self.state.start(self._sources, (*supplied, *self.plan.constants))
        self._yielded_at = perf_counter()
        return self._run_slice()

    def _conclude(self) -> None:
        """Raise the step's error, or remember what a step that went well has looked up."""
        if self.error is not None:
            raise self.error
        self.plan.handles.keep(self.plan.root, self.plan.sources, self._context, self._generation)

    # -- a step without a task ----------------------------------------------------------------------

    def begin(self, feeds: list[Any], listener: Callable[[], None]) -> int:
        """Run the plan as far as that goes at once, without a task; see `go_on`.

        listener   called when there may be more to run, perhaps while something runs
        """
        self._listener = listener
        return self._standing(self._begin(feeds))

    def resume(self, state: ExecutorState, listener: Callable[[], None]) -> int:
        """As `begin`, for a step of which some has run elsewhere; `state` says how far it came."""
        self.state = state
        self._listener = listener
        self._yielded_at = perf_counter()
        return self.go_on()

    def go_on(self) -> int:
        """Run what has become ready. DONE, WAITING until the listener is called, or NEEDS_TASK: `run_rest`.

        Raises what ends the step; `drop` it then.
        """
        self._check_going_on()
        is_done = self._run_slice() if self.state.ready or self.state.done else False
        return self._standing(is_done)

    def _standing(self, done: bool) -> int:
        while not done:
            self._check_going_on()
            if self._needs_nursery or self._departing is not None or self.state.ready:
                return NEEDS_TASK
            if self._parked or self._exchange is None or not self._exchange.is_settled():
                return WAITING
            done = self._run_slice()
        self._conclude()
        return DONE

    async def run_rest(self) -> None:
        """What is left of a step that was begun without a task. Raises as `run` does."""
        self._listener = None
        try:
            await self._run_on()
        finally:
            if self._jobs or self._callbacks or self._stretch is not None:
                await self._wind_up()
        self._conclude()

    def drop(self) -> None:
        """Leave nothing behind of a step that has ended outside a task."""
        self._listener = None
        self._forget_callbacks()

    def _check_going_on(self) -> None:
        if self.cancel_requested:
            raise CancelledError("the session was closed while this step was running")
        if self._ending is not None:
            raise self._ending

    # -- a step's task ------------------------------------------------------------------------------

    async def _run_on(self) -> None:
        """Everything after the first slice, in which the step may yield, wait and spawn."""
        while not self._needs_nursery:
            if self._departing is not None:
                self._begin_stretch()
            if self._stretch is None and self.state.ready:
                await self._yield()
            else:  # a thread has it, or all that is left is parked
                await self._wait_for_progress()
            if self._stretch is None and self._run_slice():
                return
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                # Nothing may leave through the nursery but what trio itself raises there: errors of
                # items are recorded, so that the caller never sees an ExceptionGroup.
                try:
                    await self._drive()
                except BaseException as error:
                    self._record(error)
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            self._record(first_of(group))
        finally:
            self._nursery = None
        if self._interrupt is not None and not isinstance(self._interrupt, trio.Cancelled):
            raise self._interrupt
        if self.error is None and self._interrupt is not None:
            # The caller's own cancellation: raised afresh, here, where its scope encloses it.
            await trio.lowlevel.checkpoint_if_cancelled()
            raise CancelledError("the step was cancelled")

    async def _drive(self) -> None:
        while True:
            waiting, self._needs_nursery = self._needs_nursery, []
            waiting.reverse()
            while waiting:
                # Popped, so that this frame, which sleeps next, keeps none of their inputs alive.
                self._start(*waiting.pop())
            if self._stretch is None and self._run_slice() and not self._needs_nursery:
                return
            if self._needs_nursery:
                continue
            if self._departing is not None:
                self._begin_stretch()
            if self._stretch is not None:
                await self._wait_for_progress()
            elif self.state.ready:
                await self._yield()
            elif self._async_running or self._jobs or self._parked or self._receives():
                await self._wait_for_progress()

    async def _yield(self) -> None:
        await trio.lowlevel.checkpoint()
        self._yielded_at = perf_counter()
        self._check_going_on()

    async def _wait_for_progress(self) -> None:
        """Sleep until an async item, a heavy one, a parked one or a tensor received wakes this step."""
        if (
            self._exchange is not None
            and self._stretch is None
            and not (self._async_running or self._jobs or self._parked)
        ):
            if self._ending is not None:
                raise self._ending
            if self._exchange.is_settled():
                return
        self._task = trio.lowlevel.current_task()

        def abort(_: Any) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if self._gives_way:
            self._gives_way = False
            await trio.lowlevel.checkpoint()
        self._yielded_at = perf_counter()
        self._check_going_on()

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)
        elif self._listener is not None:
            self._listener()

    def request_cancel(self) -> None:
        """End the step with CancelledError: for the session that is being closed."""
        self.cancel_requested = True
        self._recall()
        self._wake()

    async def _wind_up(self) -> None:
        """Leave nothing behind: wait for kernels that write, give up those that only compute."""
        self._forget_callbacks()
        self._abandoned = True
        self._jobs.give_up_pure()
        self._recall()
        with trio.CancelScope(shield=True):
            # A stretch that only computes ends by itself, after the item that runs.
            while self._jobs or (self._stretch is not None and self._stretch.holds_variables):
                self.cancel_requested = False
                await self._wait_for_progress()

    def _forget_callbacks(self) -> None:
        for callback, variable in tuple(self._callbacks.items()):
            variable.forget(callback)
        self._callbacks.clear()

    def _record(self, error: BaseException) -> None:
        """Keep the first failure; later ones become its notes."""
        if isinstance(error, OpError):
            if self.error is None:
                self.error = error
            elif error is not self.error:
                self.error.add_note(f"also: {type(error).__name__}: {error}")
        elif self._interrupt is None or isinstance(self._interrupt, trio.Cancelled):
            self._interrupt = error

    # -- inline items -------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def _run_slice(self) -> bool:
        """Run ready items for one slice of time. True once the step is done, False if more is to come."""
        state = self.state
        ready = state.ready
        self._deadline = perf_counter() + SLICE_SECONDS
        countdown = ITEMS_PER_CLOCK
        unmetered = self._meter is None
        with np.errstate(all="ignore"):
            while ready:
                _, _, item, iteration = heappop(ready)
                dead = iteration.dead
                if dead is not None and item.local in dead and not item.runs_dead:
                    state.finish_dead(item, iteration)
                    continue
                kind = item.kind
                entries = iteration.entries
                if kind == 1 and unmetered:  # Kind.BINARY
                    start = item.start
                    a = entries[start]
                    b = entries[start + 1]
                    limit = item.times.inline_bytes
                    if a.nbytes > limit or b.nbytes > limit:
                        entries[start] = entries[start + 1] = None
                        self._run_large(item, iteration, [a, b])
                        del a, b
                    else:
                        try:
                            value = item.function(a, b)
                        except Exception as error:
                            raise self._failure(error, item, iteration, (a, b)) from error
                        entries[start] = entries[start + 1] = None
                        del a, b
                        state.finish_single(item, iteration, value)
                        del value
                elif kind == 0 and unmetered:  # Kind.UNARY
                    start = item.start
                    a = entries[start]
                    if a.nbytes > item.times.inline_bytes:
                        entries[start] = None
                        self._run_large(item, iteration, [a])
                        del a
                    else:
                        try:
                            value = item.function(a)
                        except Exception as error:
                            raise self._failure(error, item, iteration, (a,)) from error
                        entries[start] = None
                        del a
                        state.finish_single(item, iteration, value)
                        del value
                elif kind == 3 and not item.follows:  # Kind.SWITCH
                    start = item.start
                    value = entries[start]
                    pred = entries[start + 1]
                    entries[start] = None
                    if pred.ndim:
                        self._predicate(item, iteration, [value, pred])
                    state.finish_switch(item, iteration, value, 1 if pred else 0)
                    del value
                elif kind == 5 and not item.follows:  # Kind.FORWARD
                    start = item.start
                    value = entries[start]
                    entries[start] = None
                    state.finish_single(item, iteration, value)
                    del value
                elif kind == 4:  # Kind.MERGE
                    state.finish_merge(item, iteration)
                else:
                    self._run_other(item, iteration)
                countdown -= 1
                if not countdown or self._slice_spent:
                    countdown = ITEMS_PER_CLOCK
                    if self._slice_spent or perf_counter() > self._deadline or self.cancel_requested:
                        self._slice_spent = False
                        break
        self._deadline = 0.0  # between slices nothing runs inline
        if state.done:
            return not (self._async_running or self._jobs)
        if not ready and not (
            self._async_running
            or self._jobs
            or self._parked
            or self._needs_nursery
            or self._departing is not None
            or self._receives()
        ):
            raise self._stuck() if self._ending is None else self._ending
        return False

    def _run_other(self, item: Item, iteration: IterationState) -> None:
        """Any live item that is not a plain unary or binary kernel."""
        state = self.state
        kind = item.kind
        if kind == Kind.TRIGGER:
            state.finish(item, iteration, ())
            return
        if kind >= Kind.SEND:
            self._send_or_receive(item, iteration)
            return
        if kind == Kind.REGION and self._paused:
            paused = self._paused.pop((item.order, iteration.serial), None)
            if paused is not None:
                self._resume_region(item, iteration, paused)
                return
        if state.suspended and self._departs_again(item, iteration):
            return
        entries = iteration.entries
        start, stop = item.start, item.stop
        args = entries[start:stop]
        for index in range(start, stop):
            entries[index] = None
        if (item.dereference or item.mutates) and not self._resolve(item, iteration, args):
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
            self._begin_async(item, iteration, args)
        elif kind == Kind.REGION:
            self._run_region(item, iteration, args)
        elif kind == Kind.CALL:
            self._begin_call(item, iteration, args)
        elif item.times.inline_bytes < ALWAYS_INLINE and bytes_of(args) > item.times.inline_bytes:
            self._run_large(item, iteration, args)
        else:
            started = perf_counter()
            self._run_general(item, iteration, args)
            item.times.saw((perf_counter() - started) * 1e6)

    def _run_general(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        try:
            if self._meter is not None:
                self._meter.check_before(item, args)
            outputs = item.function(*grouped(item, args), **(self._keywords if item.takes_context else {}))
            if self._meter is not None:
                self._meter.count(item, outputs, args)
        except Exception as error:
            raise self._failure(error, item, iteration, args) from error
        args.clear()
        self._complete(item, iteration, outputs)

    def _complete(self, item: Item, iteration: IterationState, outputs: Any) -> None:
        """Hand a kernel's result to the state machine."""
        if item.single:
            self.state.finish_single(item, iteration, outputs)
        elif outputs is None:
            self.state.finish(item, iteration, ())
        else:
            self.state.finish(item, iteration, outputs)

    def _predicate(self, item: Item, iteration: IterationState, args: list[Any]) -> int:
        pred = args[1]
        if getattr(pred, "ndim", 0):
            error = InvalidArgumentError(
                f"The second input must be a scalar, but it has shape {list(pred.shape)}"
            )
            raise self._failure(error, item, iteration, args)
        return 1 if pred else 0

    def _resolve(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        """Follow references to values. False if the item was parked: another thread writes the variable."""
        if self._stretch is not None:
            try:
                return self._stretch.resolve(item, iteration, args)
            except Exception as error:
                raise self._failure(error, item, iteration, None) from error
        for value in args:
            if isinstance(value, Variable) and value.writer is not None and value.writer is not self:
                self._park(item, iteration, args, value)
                return False
        try:
            for slot in item.dereference:
                args[slot] = args[slot].read()
        except Exception as error:
            raise self._failure(error, item, iteration, None) from error
        return True

    def _park(self, item: Item, iteration: IterationState, args: list[Any], variable: Variable) -> None:
        """Put the item back as it was, to be made ready again when the variable is released."""
        iteration.entries[item.start : item.stop] = args
        self._ready_when_free(item, iteration, variable)

    def _ready_when_free(self, item: Item, iteration: IterationState, variable: Variable) -> None:
        def unpark() -> None:
            if self._stretch is not None:
                self._stretch.put_off(unpark)
                return
            self._callbacks.pop(unpark, None)
            self._parked -= 1
            heappush(self.state.ready, (item.order, iteration.serial, item, iteration))
            self._wake()

        self._parked += 1
        self._callbacks[unpark] = variable
        variable.wait_free(unpark)

    # -- regions ------------------------------------------------------------------------------------

    def _run_region(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Many nodes at once. One without a loop runs through; one with a loop runs in slices."""
        region = item.region
        if region.is_generator:
            variables = tuple(v for v in args if isinstance(v, Variable)) if item.mutates else ()
            loop = RegionLoop(region.call(args, self._context), variables, self.plan.times)
            self._resume_region(item, iteration, loop)
            return
        if (
            self._exchange is not None
            and self._stretch is None
            and item.is_pure
            and self._use_threads
            and HEAVY_REGION_SECONDS < item.times.fastest_seconds < NEVER_RAN
        ):
            self._start_region(item, iteration, args)
            return
        started = perf_counter()
        try:
            outputs = region.call(args, self._context)
        except Exception as error:
            raise self._region_failure(error, item, iteration) from error
        ended = perf_counter()
        self.plan.times.region_took(item.times, ended - started)
        if ended > self._deadline:
            self._slice_spent = True
        self._complete(item, iteration, outputs)

    def _start_region(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """A region of one of several partitions on a worker thread: the others go on meanwhile."""
        if self._nursery is None:
            self._needs_nursery.append((item, iteration, args))
            self._slice_spent = True
            return
        self.heavy_items += 1
        job = Job(item.region.call, (args, self._context), {}, self._heavy_done, current_inbox())
        self._jobs.submit(job, item, iteration)

    def _resume_region(self, item: Item, iteration: IterationState, loop: RegionLoop) -> None:
        """Go on with a region's loop until it is done or the slice is spent."""
        written = loop.awaits(self)
        if written is not None:
            self._paused[item.order, iteration.serial] = loop
            self._ready_when_free(item, iteration, written)
            return
        try:
            loop.advance(self._deadline, self._is_cancelled)
        except StopIteration as stop:
            self._complete(item, iteration, stop.value)
            return
        except Exception as error:
            raise self._region_failure(error, item, iteration) from error
        self._paused[item.order, iteration.serial] = loop
        heappush(self.state.ready, (item.order, iteration.serial, item, iteration))
        self._slice_spent = True

    def _is_cancelled(self) -> bool:
        return self.cancel_requested

    def _region_failure(self, error: Exception, item: Item, iteration: IterationState) -> OpError:
        """The error of a member, located as if that had run by itself."""
        blame = item.region.blame(error.__traceback__)
        if blame is None:
            return self._failure(error, item, iteration, None)
        return locate_at(
            as_op_error(error), blame.node, iteration.tag() + blame.tag, blame.inputs, self.device
        )

    # -- function calls -----------------------------------------------------------------------------

    def _begin_call(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """Start a function's body; the item is finished when the body is."""

        def run(plan: Plan, values: Sequence[Any], done: Done) -> Sequence[Any] | None:
            whole = plan.one_region
            if whole is not None and perf_counter() < self._deadline and whole.is_free(values, self):
                try:
                    return whole.call(values, self._context)
                except Exception as error:
                    raise self._region_failure(error, whole.item, iteration) from error
            supplied = [(*edges, value) for edges, value in zip(plan.feeds, values, strict=True)]
            body = self.state.open_body(
                plan.root,
                plan.sources,
                (*supplied, *plan.constants),
                iteration,
                lambda body: done(take_results(plan, body)),
            )
            return None if body.outstanding else take_results(plan, body)

        def finish(results: Sequence[Any]) -> None:
            outputs = results[0] if item.single else tuple(results)
            self._complete(item, iteration, outputs)

        try:
            item.call.begin(run, args, finish)
        except Exception as error:
            raise self._failure(error, item, iteration, args) from error

    # -- heavy items --------------------------------------------------------------------------------

    def _run_large(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """An item with large inputs: on a thread if it is judged to be worth it, else inline."""
        if self._meter is not None:
            try:
                self._meter.check_before(item, args)
            except OpError as error:
                raise self._failure(error, item, iteration, args) from None
        estimate = estimated(item, args)
        if estimate > HEAVY_MICROSECONDS and self._departs(item, iteration, args):
            return
        started = perf_counter()
        gets_thread = (
            self._use_threads
            and estimate > HEAVY_MICROSECONDS
            and self._jobs.gets_thread(item, estimate, self.state.ready, bool(self._needs_nursery))
        )
        is_long = self._use_threads and estimate > ALONE_MICROSECONDS
        if is_long and not gets_thread and started + estimate * 1e-6 > self._deadline:
            if self._postpones(item, iteration, args):
                return
            gets_thread = True
        if gets_thread:
            if self._nursery is None:
                self._needs_nursery.append((item, iteration, args))
                self._slice_spent = True  # the sooner it starts the better
            else:
                self._start_heavy(item, iteration, args)
            return
        self._postponed = None
        # What may take a slice stays out of regions, which would take more.
        times = item.times
        times.was_heavy = is_long
        size = bytes_of(args)
        self._run_general(item, iteration, args)
        ended = perf_counter()
        times.learn(estimate, (ended - started) * 1e6, times.pace)
        if ended > self._deadline:
            self._slice_spent = True
        if item.cost is None and ended - started < HEAVY_MICROSECONDS * 0.25e-6:
            times.inline_bytes = max(times.inline_bytes, size)

    def _postpones(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        """Put back an item that does not fit into this slice; once, and not if it followed references."""
        if self._postponed is item or item.dereference or item.mutates:
            return False
        self._postponed = item
        self._slice_spent = True
        iteration.entries[item.start : item.stop] = args
        heappush(self.state.ready, (item.order, iteration.serial, item, iteration))
        return True

    def _start_heavy(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        held: tuple[Variable, ...] = ()
        if item.mutates:
            held = tuple(dict.fromkeys(value for value in args if isinstance(value, Variable)))
            for variable in held:
                if variable.writer is not None:
                    self._park(item, iteration, args, variable)
                    return
            for variable in held:
                variable.acquire(self)
        self.heavy_items += 1
        self._jobs.submit(
            Job(
                item.function,
                grouped(item, args),
                self._keywords if item.takes_context else {},
                self._heavy_done,
                current_inbox(),
            ),
            item,
            iteration,
            held,
            args,
        )

    @trio.lowlevel.enable_ki_protection
    def _heavy_done(self, job: Job) -> None:
        """A worker thread has finished a job; called by the run's system task."""
        found = self._jobs.take(job)
        if found is None:
            return  # the step gave it up
        item, iteration = found
        if self._abandoned:
            self._wake()
        elif self._stretch is not None:
            self._stretch.deferred.append(partial(self._heavy_over, job, item, iteration))
        else:
            self._heavy_over(job, item, iteration)

    def _heavy_over(self, job: Job, item: Item, iteration: IterationState) -> None:
        """Go on after a heavy kernel."""
        try:
            if job.error is not None:
                if not isinstance(job.error, Exception):
                    raise job.error
                if item.kind == Kind.REGION:
                    raise self._region_failure(job.error, item, iteration) from job.error
                raise self._failure(job.error, item, iteration, job.arguments) from job.error
            # Whoever still holds the job must not hold its inputs: a variable that was read counts them.
            arguments, job.arguments = job.arguments, ()
            result, job.result = job.result, None
            if self._meter is not None:
                try:
                    self._meter.count(item, result, arguments)
                except OpError as error:
                    raise self._failure(error, item, iteration, arguments) from None
            del arguments
            self._complete(item, iteration, result)
        except BaseException as error:
            self._record(error)
            if self._nursery is not None:
                self._nursery.cancel_scope.cancel()
        self._wake()

    # -- stretches ----------------------------------------------------------------------------------

    def _departs(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        """Put a heavy item off to begin a stretch with it; whether it was."""
        if not self._use_threads or self._meter is not None or item.mutates:
            return False
        items = self.plan.stretch_items
        if self._has_stretches is None:
            self._has_stretches = items.are_worth_it()
        if not self._has_stretches or item not in items.free:
            return False
        self._departing = (item, iteration, args)
        self._slice_spent = True  # the sooner it starts the better
        return True

    def _departs_again(self, item: Item, iteration: IterationState) -> bool:
        """Put an item that a stretch has suspended off to the next; whether it was."""
        progress = self.state.suspended.pop((item.order, iteration.serial), None)
        if progress is None:
            return False
        self._departing = (item, iteration, [progress])
        self._slice_spent = True
        return True

    def _begin_stretch(self) -> None:
        """Give the executor to a thread. `_departing` is ready and has its inputs."""
        assert self._departing is not None
        dismiss_team()
        stretch = self._stretch = Stretch(self.plan.stretch_items, self.state, self._departing)
        self._departing = None
        PRODUCTS.submit(Job(self._run_stretch, (stretch,), {}, self._stretch_over, current_inbox()))

    def _run_stretch(self, stretch: Stretch) -> None:
        """What the thread does."""
        stretch.run(self._run_other, self._failure, PRODUCTS.is_wanted)

    @trio.lowlevel.enable_ki_protection
    def _stretch_over(self, job: Job) -> None:
        """The executor is the event loop's again; called by the run's system task."""
        stretch: Stretch = job.arguments[0]
        self._stretch = None
        self._gives_way = stretch.is_recalled
        self._slice_spent = False
        self.heavy_items += stretch.heavy_items
        stretch.end()
        if not self._abandoned:
            if isinstance(job.error, Exception):
                self.end_with(job.error)
            elif job.error is not None:
                self._record(job.error)
                self.end_with(CancelledError("the step was interrupted"))
            try:
                for call in stretch.deferred:
                    call()
            except Exception as error:
                self.end_with(error)
        self._wake()

    def _recall(self) -> None:
        """Have the executor back as soon as that can be."""
        if self._stretch is not None:
            self._stretch.recall()

    # -- asynchronous items -------------------------------------------------------------------------

    def _begin_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        if item.nowait is not None:
            try:
                outputs = item.nowait(*grouped(item, args), **(self._keywords if item.takes_context else {}))
            except Exception as error:
                raise self._failure(error, item, iteration, args) from error
            if outputs is not WOULD_WAIT:
                self._complete(item, iteration, outputs)
                return
        if self._nursery is None:
            self._needs_nursery.append((item, iteration, args))
        else:
            self._start(item, iteration, args)

    def _start(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        if item.kind == Kind.REGION:
            self._start_region(item, iteration, args)
            return
        if item.kind != Kind.ASYNC:
            self._start_heavy(item, iteration, args)
            return
        assert self._nursery is not None
        self._async_running += 1
        self.async_items += 1
        self._nursery.start_soon(self._run_async, item, iteration, args, name=item.name)

    async def _run_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        """The trio task of one asynchronous item; it never raises, what happened is recorded."""
        try:
            outputs = await item.function(
                *grouped(item, args), **(self._keywords if item.takes_context else {})
            )
            if self._stretch is None:
                self._complete(item, iteration, outputs)
            else:
                self._stretch.put_off(partial(self._complete, item, iteration, outputs))
        except BaseException as error:
            if isinstance(error, Exception):
                self._record(self._failure(error, item, iteration, args))
            else:
                self._record(error)
            assert self._nursery is not None
            self._nursery.cancel_scope.cancel()
        finally:
            self._async_running -= 1
            self._wake()

    # -- other partitions ---------------------------------------------------------------------------

    def _send_or_receive(self, item: Item, iteration: IterationState) -> None:
        """A Send hands its value over, a Recv is told of one; both run dead or live."""
        args: list[Any] = []
        try:
            if item.kind == Kind.RECEIVE and self._exchange is not None:
                item.function(iteration.tag(), self._exchange.awaited(item, iteration), **self._keywords)
                return
            args = iteration.entries[item.start : item.stop]
            iteration.entries[item.start : item.stop] = [None] * len(args)
            is_dead = self.state.is_dead(item, iteration)
            if item.dereference and not is_dead and not self._resolve(item, iteration, args):
                return
            item.function(None if is_dead else args[0], is_dead, iteration.tag(), **self._keywords)
        except Exception as error:
            raise self._failure(error, item, iteration, args) from error
        self.state.finish(item, iteration, ())

    def received(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        """What a Recv waited for is there."""
        if self._stretch is not None:
            self._stretch.put_off(partial(self.received, item, iteration, value, is_dead))
            return
        if is_dead:
            self.state.finish_dead(item, iteration)
        else:
            if self._meter is not None:
                try:
                    self._meter.count(item, value)
                except OpError as error:
                    self.end_with(self._failure(error, item, iteration, None))
                    return
            self.state.finish_single(item, iteration, value)
        self._wake()

    def end_with(self, error: Exception) -> None:
        """End the step, at its next turn, with an error that came from elsewhere."""
        if self._ending is None:
            self._ending = error
        self._recall()
        self._wake()

    def wake(self) -> None:
        """Go on: something has become ready from outside."""
        self._wake()

    def _receives(self) -> bool:
        return self._exchange is not None and bool(self._exchange.waiting)

    # -- failures -----------------------------------------------------------------------------------

    def _failure(self, error: Exception, item: Item, iteration: IterationState, inputs: Any) -> OpError:
        return locate(as_op_error(error), item, iteration, inputs, self.device)

    def _stuck(self) -> Exception:
        """Nothing is ready and nothing runs, yet items are outstanding: a broken invariant of ours."""
        waiting = [
            f"{item.node.op} '{item.name}' awaits {count} of its inputs"
            for item in self.plan.items
            if item.frame is self.plan.root and 0 < (count := self.state.root.pending[item.local]) < 1 << 30
        ]
        return AssertionError("the step cannot go on; " + "; ".join(waiting[:20]))

    def results(self) -> list[Any]:
        """The fetched values, in order; InvalidArgumentError for one that is dead or never came."""
        return take_results(self.plan, self.state.root)
