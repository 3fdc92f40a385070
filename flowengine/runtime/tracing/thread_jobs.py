"""Kernels of a traced step on threads: when each was handed over, when it began and ended, and where."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from time import perf_counter, thread_time
from typing import Any

from flowengine.resources.variable import Variable
from flowengine.runtime.frames import IterationState
from flowengine.runtime.offload_policy import HeavyJobs
from flowengine.runtime.planning.items import Item, Kind
from flowengine.runtime.threads import Job
from flowengine.runtime.tracing.clocked_blocks import ClockedBlocks
from flowengine.runtime.tracing.recorder import Recorder
from flowengine.runtime.tracing.waits import outputs_of


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
        #: {a job: the name of its node}
        self._waiting: dict[Job, str] = {}

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
        self._waiting[job] = item.name
        job.function = partial(
            self._timed, function, item, tag, self._ready_since(item, iteration), perf_counter()
        )
        super().submit(job, item, iteration, held, args)

    def _timed(
        self,
        function: Callable[..., Any],
        item: Item,
        tag: Any,
        ready: float | None,
        submitted: float,
        *arguments: Any,
        **keywords: Any,
    ) -> Any:
        """Call a kernel on its thread, and record it."""
        thread = threading.current_thread().name
        cpu, began = thread_time(), perf_counter()
        outputs: list[Any] = []
        detail: dict[str, Any] = {}
        self._recorder.wait(
            f"lane: {item.name!r} for a thread", self._device_name, submitted, began, item.node
        )
        try:
            result = function(*arguments, **keywords)
            outputs = outputs_of(result)
        except Exception as error:
            detail["error"] = str(error).partition("\n")[0]
            raise
        finally:
            ended = perf_counter()
            detail["cpu_seconds"] = thread_time() - cpu
            kind = "block" if item.kind == Kind.REGION else "kernel"
            self._recorder.add(
                (kind, item.node, self._device_name, thread, tag, ready, began, ended, outputs, detail)
            )
        return result

    def take(self, job: Job) -> tuple[Item, IterationState] | None:
        self._waiting.pop(job, None)
        return super().take(job)

    def reasons(self) -> list[str]:
        """Name the kernels that the step waits for."""
        return [f"kernel {name!r} on a thread" for name in [*self._waiting.values()]]


__all__ = ["TracedJobs"]
