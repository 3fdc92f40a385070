"""The records of a traced step, and its outside work: kernels on threads, tasks, transfers, waits."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

from flowengine.runtime.executor import Executor
from flowengine.runtime.frames import IterationState
from flowengine.runtime.offload import Offload
from flowengine.runtime.planning.items import Item, Kind
from flowengine.runtime.tracing.clocked_blocks import ClockedBlocks
from flowengine.runtime.tracing.recorder import Recorder
from flowengine.runtime.tracing.thread_jobs import TracedJobs
from flowengine.runtime.tracing.waits import failure_of, output_of, outputs_of, subject_of

#: Items with their consumers in the tables of another iteration.
_LEAVING: Final = frozenset({Kind.ENTER, Kind.EXIT, Kind.NEXT_ITERATION})
#: {kind of an item: that of its event}; the others are kernels.
KINDS: Final = {Kind.REGION: "block", Kind.SEND: "send"}


class TracedOutside(Executor):
    """The part of a traced executor that meets others; `TracedExecutor` runs its items."""

    #: The reason why the item that runs now has not ended with its call; None if it has.
    _left: str | None = None
    _thread = ""
    #: The item that runs now.
    _current: Item | None = None
    #: Whether ready items run now: otherwise what completes comes from outside.
    _is_running = False

    def __init__(self, *arguments: Any, recorder: Recorder, device_name: str, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.recorder = recorder
        #: How a plain kernel is called, by its kind.
        self._run = (self._run_unary, self._run_binary, self._run_general)
        #: {key of a ready item: the time when its last input came}
        self._since: dict[tuple[int, int], float] = {}
        self.device_name = device_name
        self._blocks = ClockedBlocks(recorder, device_name)
        #: {key of an item: (the time since when it waits, the reason)}
        self._parked: dict[tuple[int, int], tuple[float, str]] = {}
        #: {key of a call, or a Recv: when it began}
        self._begun: dict[tuple[int, int], float] = {}
        #: {key of an item in a task: what it waits for}
        self._tasks: dict[tuple[int, int], str] = {}
        #: {key of an item in a task: when it gave its outputs}
        self._completed: dict[tuple[int, int], float] = {}
        if recorder.has_nodes:
            self._blocks.compile(self.plan)

    def _add(
        self,
        kind: str,
        item: Item,
        iteration: IterationState,
        began: float,
        outputs: Sequence[Any] = (),
        detail: dict[str, Any] | None = None,
        thread: str = "",
        ended: float | None = None,
    ) -> None:
        """Record an item, or a part of one, that has ended, by default now; `thread` if one thread did it."""
        if ended is None:
            ended = perf_counter()
        tag = iteration.tag() if iteration.serial else ()
        since = self._ready_since(item, iteration)
        self.recorder.add(
            (kind, item.node, self.device_name, thread, tag, since, began, ended, outputs, detail)
        )

    def _record(
        self,
        item: Item,
        iteration: IterationState,
        began: float,
        detail: dict[str, Any] | None = None,
        kind: str = "",
    ) -> None:
        """Record an item that has just run, with the outputs that its consumers have by now."""
        ended = perf_counter()
        outputs: Sequence[Any] = ()
        if item.kind not in _LEAVING:
            entries = iteration.entries
            outputs = [output_of(entries[edges[0][1]]) if edges else None for edges in item.edges]
        kind = kind or KINDS.get(item.kind, "kernel")
        self._add(kind, item, iteration, began, outputs, detail, self._thread, ended)

    # -- when items became ready ----------------------------------------------------------------------

    def _start(self, feeds: Any) -> None:
        super()._start(feeds)
        self._note_ready(perf_counter())

    def _note_ready(self, now: float) -> None:
        """Note that the items that are ready now, and were not before, are so since this moment."""
        since = self._since
        for _, serial, item, _ in self.state.ready:
            since.setdefault((item.order, serial), now)

    def _ready_since(self, item: Item, iteration: IterationState) -> float | None:
        return self._since.pop((item.order, iteration.serial), None)

    # -- threads, tasks, other partitions ---------------------------------------------------------------

    def _own_offload(self) -> Offload:
        if self.offload is None:
            offload = super()._own_offload()
            offload.jobs = TracedJobs(self.recorder, self.device_name, self._blocks, self._ready_since)
        assert self.offload is not None
        return self.offload

    def begin_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        is_away = self.is_away  # then a thread runs items, and this is called for one of them
        if not is_away:
            self._left = "async"
        self._tasks[item.order, iteration.serial] = subject_of(item, args)
        before, began = (self.async_items, len(self.needs_nursery)), perf_counter()
        super().begin_async(item, iteration, args)
        if is_away and before == (self.async_items, len(self.needs_nursery)):
            self._record(item, iteration, began)

    async def _run_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        began, error = perf_counter(), self.error
        detail: dict[str, Any] = {"waits_for": subject_of(item, args)}
        try:
            await super()._run_async(item, iteration, args)
        finally:
            if self.error is not error and self.error is not None:
                detail |= failure_of(self.error)
            self._tasks.pop((item.order, iteration.serial), None)
            # Its consumers are ready since then: afterwards, others may have run.
            ended = self._completed.pop((item.order, iteration.serial), None)
            self._add("async", item, iteration, began, (), detail, ended=ended)

    def send(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        began = perf_counter()
        super().send(item, iteration, value, is_dead)
        if self.offloaded_run is None:
            self._left = "sent"
        thread = threading.current_thread().name
        self._add("send", item, iteration, began, *self._sent(item, value, is_dead), thread)

    def receive(self, item: Item, iteration: IterationState) -> None:
        if not self.is_away:
            self._left = "recv"
        self._begun[item.order, iteration.serial] = perf_counter()
        super().receive(item, iteration)

    def received(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        began = self._begun.pop((item.order, iteration.serial), None)
        if began is not None:
            self._add("recv", item, iteration, began, *self._sent(item, value, is_dead))
        super().received(item, iteration, value, is_dead)

    def _take_in(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        super()._take_in(item, iteration, value, is_dead)
        self._note_ready(perf_counter())

    # -- waiting ------------------------------------------------------------------------------------

    async def _yield(self) -> None:
        began = perf_counter()
        try:
            await super()._yield()
        finally:
            self.recorder.wait("turn of other work", self.device_name, began, perf_counter())

    async def _wait_for_progress(self) -> None:
        reason, began = self._waits_for(), perf_counter()
        try:
            await super()._wait_for_progress()
        finally:
            self.recorder.wait(reason, self.device_name, began, perf_counter())

    def _waits_for(self) -> str:
        """Name everything that may wake the step."""
        if self.is_away:
            return "offloaded run on a thread"
        reasons = [*self._tasks.values(), *(reason for _, reason in self._parked.values())]
        if self.offload is not None and isinstance(self.offload.jobs, TracedJobs):
            reasons += self.offload.jobs.reasons()
        if self.exchange is not None:
            edges = (item.route[2] for item, _ in self.exchange.waiting.values())
            reasons += [f"Recv of {edge}" for edge in edges]
        return "; ".join(dict.fromkeys(reasons)) or "a wake-up"

    def _sent(self, item: Item, value: Any, is_dead: bool) -> tuple[list[Any], dict[str, Any]]:
        """Return the outputs and the detail of either end of a transfer. Both know the number of the step."""
        edge, to = item.route[2] or item.name, item.route[3]
        detail = {"edge": edge, "to": to, "is_dead": is_dead, "step": self.context.step_id}
        return outputs_of(None if is_dead else value), detail


__all__ = ["KINDS", "TracedOutside"]
