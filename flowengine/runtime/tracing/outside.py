"""The records of a traced step, and its outside work: kernels on threads, tasks, transfers, waits."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Any, Final

from flowengine.ir.graph import Node
from flowengine.runtime.executor import Executor
from flowengine.runtime.frames import IterationState
from flowengine.runtime.offload import Offload
from flowengine.runtime.planning.items import Item, Kind
from flowengine.runtime.tracing.clocked_blocks import ClockedBlocks
from flowengine.runtime.tracing.recorder import UNFINISHED, Recorder
from flowengine.runtime.tracing.thread_jobs import TracedJobs
from flowengine.runtime.tracing.waits import failure_of, output_of, outputs_of, subject_of

#: Items with their consumers in the tables of another iteration.
_LEAVING: Final = frozenset({Kind.ENTER, Kind.EXIT, Kind.NEXT_ITERATION})
#: {kind of an item: that of its event}; the others are kernels.
KINDS: Final = {Kind.REGION: "block", Kind.SEND: "send"}


def key_of(item: Item, serial: int) -> int | tuple[int, int]:
    """Return the key of an item in an iteration: outside of loops a number, which is found faster."""
    return (item.order, serial) if serial else item.order


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
        #: {key of a ready item, by `key_of`: the time when its last input came}
        self._since: dict[int | tuple[int, int], float] = {}
        self.device_name = device_name
        self._blocks = ClockedBlocks(recorder, device_name)
        #: {key of an item: (the time since when it waits, its node, the reason)}
        self._parked: dict[tuple[int, int], tuple[float, Node, str]] = {}
        #: {key of a call, or a Recv: the item, its iteration, when it began}
        self._begun: dict[tuple[int, int], tuple[Item, IterationState, float]] = {}
        #: {key of an item in a task: the item, its iteration, when it began, what it waits for}
        self._tasks: dict[tuple[int, int], tuple[Item, IterationState, float, str]] = {}
        #: {key of an item in a task: when it gave its outputs}
        self._completed: dict[tuple[int, int], float] = {}
        #: The error by which an item in a task has just ended.
        self._failed: BaseException | None = None
        self._jobs: TracedJobs | None = None
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
        ended: float | None = None,
    ) -> None:
        """Record an item that has just run, by default now, with the outputs that its consumers have."""
        if ended is None:
            ended = perf_counter()
        outputs: Sequence[Any] = ()
        if item.kind not in _LEAVING:
            entries = iteration.entries
            outputs = [output_of(entries[edges[0][1]]) if edges else None for edges in item.edges]
        kind = kind or KINDS.get(item.kind, "kernel")
        self._add(kind, item, iteration, began, outputs, detail, self._thread, ended)

    # -- what a step leaves unfinished -----------------------------------------------------------------

    async def run(self, feeds: list[Any] | None, *, has_turn: bool = True) -> None:
        self.recorder.begin_part(self._note_unfinished)
        try:
            await super().run(feeds, has_turn=has_turn)
        finally:
            self.recorder.end_part(self._note_unfinished)

    def _note_unfinished(self, now: float) -> None:
        """Record the calls, transfers, tasks, waits and kernels on threads that have begun and not ended."""
        begun, self._begun = self._begun, {}
        for item, iteration, began in begun.values():
            if item.kind == Kind.RECEIVE:
                source, _, edge, to = item.route
                edge = edge or item.name
                detail = {"edge": edge, "from": source, "to": to, **UNFINISHED}
                detail["waits_for"] = f"Recv of {edge} from {source}"
                self._add("recv", item, iteration, began, (), detail, ended=now)
            else:
                self._add("call", item, iteration, began, (), {**UNFINISHED}, ended=now)
        tasks, self._tasks = self._tasks, {}
        for item, iteration, began, subject in tasks.values():
            self._add("async", item, iteration, began, (), {"waits_for": subject} | UNFINISHED, ended=now)
        parked, self._parked = self._parked, {}
        for began, node, reason in parked.values():
            self.recorder.wait(reason, self.device_name, began, now, node, is_unfinished=True)
        if self._jobs is not None:
            self._jobs.note_unfinished(now)

    # -- when items became ready ----------------------------------------------------------------------

    def _start(self, feeds: Any) -> None:
        super()._start(feeds)
        self._note_ready(perf_counter())

    def _note_ready(self, now: float) -> None:
        """Note that the items that are ready now, and were not before, are so since this moment."""
        since = self._since
        for _, serial, item, _ in self.state.ready:
            since.setdefault(key_of(item, serial), now)

    def _ready_since(self, item: Item, iteration: IterationState) -> float | None:
        return self._since.pop(key_of(item, iteration.serial), None)

    # -- threads, tasks, other partitions ---------------------------------------------------------------

    def _own_offload(self) -> Offload:
        if self.offload is None:
            offload = super()._own_offload()
            self._jobs = TracedJobs(self.recorder, self.device_name, self._blocks, self._ready_since)
            offload.jobs = self._jobs
        assert self.offload is not None
        return self.offload

    def begin_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        is_away = self.is_away  # then a thread runs items, and this is called for one of them
        if not is_away:
            self._left = "async"
        key = (item.order, iteration.serial)
        before, began = (self.async_items, len(self.needs_nursery)), perf_counter()
        self._tasks[key] = (item, iteration, began, subject_of(item, args))
        try:
            super().begin_async(item, iteration, args)
        except Exception:
            del self._tasks[key]
            raise
        if before == (self.async_items, len(self.needs_nursery)):  # it did not have to wait
            self._tasks.pop(key, None)
            self._completed.pop(key, None)
            if is_away:
                self._record(item, iteration, began)

    def fail(self, error: BaseException) -> None:
        self._failed = error
        super().fail(error)

    def _complete(self, item: Item, iteration: IterationState, outputs: Any) -> None:
        self._completed[item.order, iteration.serial] = perf_counter()
        super()._complete(item, iteration, outputs)

    async def _run_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        key, began = (item.order, iteration.serial), perf_counter()
        detail: dict[str, Any] = {"waits_for": subject_of(item, args)}
        try:
            await super()._run_async(item, iteration, args)
        finally:
            # Nothing else runs between its end and here, so an error is its own.
            error, self._failed = self._failed, None
            # Its consumers are ready since then: afterwards, others may have run.
            ended = self._completed.pop(key, None)
            if isinstance(error, Exception):
                detail |= failure_of(error)
            elif ended is None:
                detail |= UNFINISHED
            if self._tasks.pop(key, None) is not None:
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
        self._begun[item.order, iteration.serial] = item, iteration, perf_counter()
        super().receive(item, iteration)

    def received(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        begun = self._begun.pop((item.order, iteration.serial), None)
        if begun is not None:
            self._add("recv", item, iteration, begun[2], *self._sent(item, value, is_dead))
        super().received(item, iteration, value, is_dead)

    def _take_in(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None:
        super()._take_in(item, iteration, value, is_dead)
        self._note_ready(perf_counter())

    # -- waiting ------------------------------------------------------------------------------------

    async def _yield(self) -> None:
        await self._recorded_wait("turn of other work", super()._yield())

    async def _wait_for_progress(self) -> None:
        await self._recorded_wait(self._waits_for(), super()._wait_for_progress())

    async def _recorded_wait(self, reason: str, wait: Awaitable[None]) -> None:
        began, is_unfinished = perf_counter(), True
        try:
            await wait
            is_unfinished = False
        finally:
            self.recorder.wait(reason, self.device_name, began, perf_counter(), is_unfinished=is_unfinished)

    def _waits_for(self) -> str:
        """Name everything that may wake the step."""
        if self.is_away:
            return "offloaded run on a thread"
        reasons = [subject for *_, subject in self._tasks.values()]
        reasons += [reason for *_, reason in self._parked.values()]
        if self._jobs is not None:
            reasons += self._jobs.reasons()
        if self.exchange is not None:
            edges = (item.route[2] for item, _ in self.exchange.waiting.values())
            reasons += [f"Recv of {edge}" for edge in edges]
        return "; ".join(dict.fromkeys(reasons)) or "a wake-up"

    def _sent(self, item: Item, value: Any, is_dead: bool) -> tuple[list[Any], dict[str, Any]]:
        """Return the outputs and the detail of either end of a transfer. Both know the number of the step."""
        edge, to = item.route[2] or item.name, item.route[3]
        detail = {"edge": edge, "to": to, "is_dead": is_dead, "step": self.context.step_id}
        return outputs_of(None if is_dead else value), detail


__all__ = ["KINDS", "TracedOutside", "key_of"]
