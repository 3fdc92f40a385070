"""Kernels of a traced step on threads: when each was handed over, when it began and ended, and where."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter, thread_time
from typing import Any

from flowengine.kernels.member_times import MEMBER_TIMES
from flowengine.resources.variable import Variable
from flowengine.runtime.frames import IterationState
from flowengine.runtime.offload_policy import HeavyJobs
from flowengine.runtime.planning.items import Item, Kind
from flowengine.runtime.threads import Job
from flowengine.runtime.tracing.clocked_blocks import ClockedBlocks
from flowengine.runtime.tracing.recorder import UNFINISHED, Recorder
from flowengine.runtime.tracing.waits import failure_of, outputs_of


@dataclass(slots=True)
class _JobRecord:
    """The times of one kernel.

    ready       the time when its last input came; `submitted`, when it was handed over
    began       its beginning on `thread`, once it has one
    is_recorded whether its event was recorded
    """

    item: Item
    tag: Any
    ready: float | None
    submitted: float
    began: float = 0.0
    thread: str = ""
    is_recorded: bool = False


class TracedJobs(HeavyJobs):
    """The kernels of one traced step that are on worker threads."""

    __slots__ = ("_blocks", "_device_name", "_ready_since", "_recorder", "_waiting")

    def __init__(
        self,
        recorder: Recorder,
        device_name: str,
        blocks: ClockedBlocks,
        ready_since: Callable[[Item, IterationState], float | None],
    ) -> None:
        """`ready_since` returns the time when the last input of an item came."""
        super().__init__()
        self._recorder = recorder
        self._device_name = device_name
        self._blocks = blocks
        self._ready_since = ready_since
        #: The jobs whose results the step waits for.
        self._waiting: dict[Job, _JobRecord] = {}

    def submit(
        self,
        job: Job,
        item: Item,
        iteration: IterationState,
        held: tuple[Variable, ...] = (),
        args: list[Any] | None = None,
    ) -> None:
        tag = iteration.tag() if iteration.serial else ()
        function = job.function
        if item.kind == Kind.REGION and self._recorder.has_nodes:
            function = self._blocks.around(item, iteration, function)
        record = _JobRecord(item, tag, self._ready_since(item, iteration), perf_counter())
        self._waiting[job] = record
        job.function = partial(self._timed, function, record)
        super().submit(job, item, iteration, held, args)

    def _timed(
        self, function: Callable[..., Any], record: _JobRecord, *arguments: Any, **keywords: Any
    ) -> Any:
        """Call a kernel on its thread, and record it."""
        record.thread = threading.current_thread().name
        cpu, began = thread_time(), perf_counter()
        record.began = began
        outputs: list[Any] = []
        detail: dict[str, Any] = {}
        node = record.item.node
        self._recorder.wait(
            f"lane: {node.name!r} for a thread", self._device_name, record.submitted, began, node
        )
        recorder = self._recorder
        times = recorder.member_times(self._device_name, record.thread) if recorder.has_nodes else None
        token = MEMBER_TIMES.set(times)
        try:
            result = function(*arguments, **keywords)
            outputs = outputs_of(result)
        except Exception as error:
            detail |= failure_of(error)
            raise
        finally:
            MEMBER_TIMES.reset(token)
            ended = perf_counter()
            detail["cpu_seconds"] = thread_time() - cpu
            if not record.is_recorded:
                self._add(record, ended, outputs, detail)
        return result

    def _add(self, record: _JobRecord, ended: float, outputs: list[Any], detail: dict[str, Any]) -> None:
        record.is_recorded = True
        item = record.item
        kind = "block" if item.kind == Kind.REGION else "kernel"
        times = (record.ready, record.began, ended)
        self._recorder.add(
            (kind, item.node, self._device_name, record.thread, record.tag, *times, outputs, detail)
        )

    def take(self, job: Job) -> tuple[Item, IterationState] | None:
        self._waiting.pop(job, None)
        return super().take(job)

    def reasons(self) -> list[str]:
        """Name the kernels that the step waits for."""
        return [f"kernel {record.item.name!r} on a thread" for record in [*self._waiting.values()]]

    def note_unfinished(self, now: float) -> None:
        """Record the kernels that the step has abandoned, on their threads or before they had one."""
        waiting, self._waiting = self._waiting, {}
        for record in waiting.values():
            node = record.item.node
            if not record.thread:
                reason = f"lane: {node.name!r} for a thread"
                since, device = record.submitted, self._device_name
                self._recorder.wait(reason, device, since, now, node, is_unfinished=True)
            elif not record.is_recorded:
                self._add(record, now, [], {**UNFINISHED})


__all__ = ["TracedJobs"]
