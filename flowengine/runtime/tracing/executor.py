"""The executor of a traced step: it runs items as any does, and records each with its times.

It is chosen when a step asks for a trace, so the executor of other steps has no branch for it. It calls plain
kernels itself, and runs any other item by the loop that all steps have, one at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import repeat
from time import perf_counter, thread_time
from typing import Any, cast

from flowengine.core.arrays import DEAD
from flowengine.kernels.member_times import MEMBER_TIMES, MemberTimes
from flowengine.passes.blocks.compiled_regions import Blame, CompiledRegion
from flowengine.resources.variable import Variable
from flowengine.runtime.failures import cause_of
from flowengine.runtime.frames import IterationState
from flowengine.runtime.lanes import INLINE
from flowengine.runtime.planning.items import Item, Kind
from flowengine.runtime.planning.timings import PlanTimes
from flowengine.runtime.ready_loop import NOT_NOW
from flowengine.runtime.resumable_blocks import Body, LoopBody
from flowengine.runtime.tracing.outside import KINDS, TracedOutside, key_of
from flowengine.runtime.tracing.waits import core_wait_seconds, failure_of, outputs_of


class TracedExecutor(TracedOutside):
    """One run of a plan that a recorder follows."""

    # -- the loop -----------------------------------------------------------------------------------

    def run_ready(self, ends: float) -> None:
        self._thread = threading.current_thread().name
        self._left = None
        waited, cpu, began = core_wait_seconds(), thread_time(), perf_counter()
        self._is_running = True
        times = MEMBER_TIMES.set(self._member_times())
        try:
            super().run_ready(ends)
        finally:
            MEMBER_TIMES.reset(times)
            self._is_running = False
            ended = perf_counter()
            detail = {"cpu_seconds": thread_time() - cpu}
            if waited is not None and (now := core_wait_seconds()) is not None:
                detail["core_wait_seconds"] = now - waited
            self.recorder.add(
                ("turn", "turn", self.device_name, self._thread, (), None, began, ended, (), detail)
            )

    def _member_times(self) -> MemberTimes | None:
        """Return the list of this thread for the times of members of claims, if they have some."""
        recorder = self.recorder
        return recorder.member_times(self.device_name, self._thread) if recorder.has_nodes else None

    def _run_batch(self, count: int) -> None:
        state, since = self.state, self._since
        ready, add = state.ready, self.recorder.adder(count)
        device, thread, run = self.device_name, self._thread, self._run
        for _ in repeat(None, count):
            _, serial, item, iteration = ready[0]
            kind = item.kind
            if kind > 2 or iteration.dead is not None or self._parked or item.has_rare_edges:
                self._run_one(item, iteration)  # 2: Kind.GENERAL
                self._left = None
            else:
                # Nearly every item: as `_run_one`, whose 3 us would be more than most kernels take.
                heappop(ready)
                if kind == 2:
                    self._current = item
                began = perf_counter()
                try:
                    value = run[kind](item, iteration)
                except Exception as error:
                    self._record(item, iteration, began, failure_of(error))
                    raise
                ended = perf_counter()
                if value is NOT_NOW:
                    self._record_if_run(item, iteration, began, ended)
                    self._left = None
                    self._note_consumers(item, iteration, ended)
                else:
                    order = item.order
                    if serial:
                        was_ready, tag = since.pop((order, serial), None), iteration.tag()
                    else:
                        was_ready, tag = since.pop(order, None), ()
                    try:
                        outputs: Any = (value.dtype, value.shape)
                    except AttributeError:
                        outputs = ()
                    add(("kernel", item.node, device, thread, tag, was_ready, began, ended, outputs, None))
                    # As `ExecutorState.finish_single`, with the time when consumers became ready.
                    entries, pending = iteration.entries, iteration.pending
                    more = -1
                    for local, entry, consumer in item.edges[0]:
                        entries[entry] = value
                        pending[local] = left = pending[local] - 1
                        if not left:
                            order = consumer.order
                            since[(order, serial) if serial else order] = ended
                            heappush(ready, (order, serial, consumer, iteration))
                            more += 1
                    value = None
                    if more:
                        iteration.outstanding += more
                        if not iteration.outstanding:
                            state.iteration_idle(iteration)
            if not ready or self.spent:
                return

    def _note_consumers(self, item: Item, iteration: IterationState, now: float) -> None:
        """Note that those of an item's consumers that have all their inputs are ready since this moment."""
        pending, serial = iteration.pending, iteration.serial
        for edges in item.edges:
            for local, _, consumer in edges:
                if not pending[local]:
                    self._since[key_of(consumer, serial)] = now

    def _run_one(self, item: Item, iteration: IterationState) -> None:
        """Run the first ready item, of any kind."""
        run = super()._run_batch
        others = len(self.state.ready) - 1
        self._current = item
        if _is_dead(item, iteration):
            run(1)
        else:
            if self._parked:
                self._has_waited(item, iteration.serial)
            self._left = None
            began = perf_counter()
            try:
                run(1)
            except Exception as error:
                self._record(item, iteration, began, failure_of(error))
                raise
            self._record_if_run(item, iteration, began)
        if len(self.state.ready) > others:
            self._note_ready(perf_counter())

    def _record_if_run(
        self, item: Item, iteration: IterationState, began: float, ended: float | None = None
    ) -> None:
        left = self._left
        if left is None:
            self._record(item, iteration, began, ended=ended)
        elif left == "body":
            self._record(item, iteration, began, kind="body", ended=ended)

    def begin_with(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        self._thread = threading.current_thread().name
        self._left = None
        self._current = item
        began = perf_counter()
        times = MEMBER_TIMES.set(self._member_times())
        try:
            goes_on = super().begin_with(item, iteration, args)
        finally:
            MEMBER_TIMES.reset(times)
        self._record_if_run(item, iteration, began)
        self._note_ready(perf_counter())
        return goes_on

    # -- items that do not end with their call --------------------------------------------------------

    def lane_of(self, item: Item, iteration: IterationState, args: list[Any], estimate: float) -> int:
        lane = super().lane_of(item, iteration, args, estimate)
        if lane != INLINE:
            self._left = "lane"
        return lane

    def depart(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        self._left = "lane"
        super().depart(item, iteration, args)

    def shares_region(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        shares = super().shares_region(item, iteration, args)
        if shares:
            self._left = "lane"
        return shares

    def put_back(self, item: Item, iteration: IterationState) -> None:
        self._left = "later"
        super().put_back(item, iteration)

    def leave_to_loop(self, item: Item, iteration: IterationState) -> None:
        self._left = "loop"
        super().leave_to_loop(item, iteration)

    def issue(self, doing: Callable[[], None]) -> None:
        self._left = "loop"
        super().issue(doing)

    def keep_begun(self, item: Item, iteration: IterationState, body: Body) -> None:
        self._left = "body"
        super().keep_begun(item, iteration, body)

    def ready_when_free(self, item: Item, iteration: IterationState, variable: Variable) -> None:
        self._left = "parked"
        reason = f"variable {variable.name!r}, which another step writes"
        self._parked[item.order, iteration.serial] = (perf_counter(), item.node, reason)
        super().ready_when_free(item, iteration, variable)

    def _has_waited(self, item: Item, serial: int) -> None:
        found = self._parked.pop((item.order, serial), None)
        if found is not None:
            self.recorder.wait(found[2], self.device_name, found[0], perf_counter(), item.node)

    def complete(self, item: Item, iteration: IterationState, outputs: Any) -> None:
        if item.kind == Kind.CALL:
            self._call_ended(item, iteration)
        self._left = None
        super().complete(item, iteration, outputs)
        if not self._is_running:
            self._note_ready(perf_counter())

    # -- function calls -----------------------------------------------------------------------------

    def begin_call(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        key = (item.order, iteration.serial)
        self._begun[key] = item, iteration, perf_counter()
        try:
            super().begin_call(item, iteration, args)
        except Exception:
            self._begun.pop(key, None)  # it is recorded with its error
            raise
        self._left = "call"  # recorded when it ends, which may have been now

    def _call_ended(self, item: Item, iteration: IterationState) -> None:
        begun = self._begun.pop((item.order, iteration.serial), None)
        if begun is not None:
            self._add("call", item, iteration, begun[2])

    # -- blocks ---------------------------------------------------------------------------------------

    def call_region(self, item: Item, iteration: IterationState, args: list[Any], times: PlanTimes) -> Any:
        began = perf_counter()
        if not self.recorder.has_nodes:
            outputs = super().call_region(item, iteration, args, times)
        else:
            context = self.context if item.region.takes_context else None
            try:
                outputs = self._blocks.caller(item, iteration)(args, context)
            except Exception as error:
                raise self.region_failure(error, item, iteration) from cause_of(error)
        self._record_within(item, iteration, began, outputs)
        return outputs

    def call(self, item: Item, iteration: IterationState, args: list[Any]) -> Any:
        began = perf_counter()
        outputs = super().call(item, iteration, args)
        self._record_within(item, iteration, began, outputs)
        return outputs

    def _record_within(self, item: Item, iteration: IterationState, began: float, outputs: Any) -> None:
        """Record an item that runs within another: the one item of a function's body."""
        if item is not self._current:
            kind = KINDS.get(item.kind, "kernel")
            self._add(kind, item, iteration, began, outputs_of(outputs), None, self._thread)

    def blame(self, error: Exception, item: Item) -> Blame | None:
        if self.recorder.has_nodes:
            return cast(CompiledRegion, item.region).clocked().blame(error.__traceback__)
        return super().blame(error, item)

    def begin_body(self, item: Item, iteration: IterationState, body: Body, args: list[Any]) -> None:
        if self.recorder.has_nodes and isinstance(body, LoopBody):
            call = self._blocks.caller(item, iteration)
            body = LoopBody(item, self.context, self.plan.times, self, call)
        super().begin_body(item, iteration, body, args)


def _is_dead(item: Item, iteration: IterationState) -> bool:
    """Return whether an item will not run: an input is dead, or all inputs of a Merge."""
    if item.kind == Kind.MERGE and iteration.entries[item.start] is DEAD:
        return True
    dead = iteration.dead
    return dead is not None and item.local in dead and not item.runs_dead


__all__ = ["TracedExecutor"]
