"""One run of a plan: its container, its deadline, its results."""

from __future__ import annotations

import itertools
import logging
import weakref
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol

import trio

from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.config import Settings
from flowengine.core.errors import CancelledError, DeadlineExceededError, OpError
from flowengine.core.run_options import RunOptions
from flowengine.devices.allocation import Ledger
from flowengine.devices.device import Device
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import KernelRegistry
from flowengine.resources.container import ResourceManager, StepContainer
from flowengine.runtime.executor import Executor
from flowengine.runtime.memory import MemoryMeter
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.planning_jobs import finish_in_turns
from flowengine.runtime.planning.tiers import INLINE_NODES, TieredPlan
from flowengine.runtime.run_metadata import RunMetadata, recorder_of
from flowengine.runtime.tracing.observed_steps import executor_for
from flowengine.runtime.tracing.recorder import Recorder
from flowengine.runtime.turn_queue import Ticket
from flowengine.runtime.turns import Turns, current_turns

logger: Final = logging.getLogger("flowengine.runtime")

_step_ids: Final = itertools.count(1)
_owners: Final = itertools.count(1)


class RunningStep(Protocol):
    """A step that has not ended."""

    plan: Plan

    def request_cancel(self) -> None:
        """End it with CancelledError."""


class StepRunner:
    """Runs plans on one device with one resource manager. Steps may run at the same time.

    running   the steps that have not ended
    ended     called after each step, before its caller continues
    """

    def __init__(
        self,
        resources: ResourceManager,
        settings: Settings,
        device: Device,
        kernels: KernelRegistry | None = None,
    ) -> None:
        """`kernels`: compute the graphs that a kernel is given; None for this package's own."""
        self.resources = resources
        self.settings = settings
        self.device = device
        self._device_name = device.name
        #: The name of the owner of these steps, for resources that are its alone; unique in this process.
        self.owner = f"_owner_{next(_owners)}"
        #: The common part of the contexts of all steps, and of all their partitions.
        self.common: dict[str, Any] = {
            "owner": self.owner,
            "files": settings.file_access,
            "sync_checkpoints": settings.sync_checkpoints,
            "python_calls": settings.python_calls,
            "kernels": kernels,
        }
        self._counts = settings.counts_allocations
        #: The memory of all steps and resources together, if anybody asks.
        self.ledger: Ledger | None = None
        if self._counts:
            self.ledger = Ledger(settings.session_memory_bytes, "session_memory_bytes")
            if resources.account is None:
                resources.account = self.ledger
        self.running: set[RunningStep] = set()
        #: The recorders of the traced steps that run: they follow functions that resources call, too.
        self.recorders: list[Recorder] = []
        self.ended: list[Callable[[], None]] = []
        #: The turns of the trio run in which steps run; found by the first.
        self._turns: Turns | None = None
        self._is_closed = False

    def bind(self) -> None:
        """Make the current trio run the owner of the resources, or check that it is.

        Raises FailedPreconditionError from any other run or thread, and after the resources are closed.
        """
        try:
            task = trio.lowlevel.current_task()
        except RuntimeError:
            self.resources.bind_to_current_run()  # outside of any task
        else:
            if self.resources.last_task() is not task:
                self.resources.bind_to_current_run()
                self.resources.last_task = weakref.ref(task)

    async def run(
        self,
        plan: Plan,
        feeds: list[Any],
        timeout_seconds: float | None = None,
        run_metadata: RunMetadata | None = None,
        waited: float = 0.0,
        sequences: ResourceManager | None = None,
        options: RunOptions | None = None,
        recorder: Recorder | None = None,
    ) -> list[Any]:
        """Run one step; return its fetched values, not yet the caller's own (see `values.FetchSpec`).

        waited       seconds of the timeout that have passed
        options      say whether the step is traced
        recorder     of the traced step that this one belongs to
        sequences    the positions of random nodes, if they are not with the resources

        Raises the step's error, DeadlineExceededError after the timeout, trio.Cancelled when the caller is
        cancelled. In any case, the step's container is then empty, nothing of the step waits, and effects on
        state are those of the items that had completed.
        """
        if options is not None:
            recorder = recorder_of(options, run_metadata, waited, self._device_name)
        started = perf_counter()
        turns = self._turns
        if turns is None:
            turns = self._turns = current_turns()
        ticket: Ticket | None = None
        if started < turns.line.begins_until:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            ticket, waited = await self._begin(turns, timeout_seconds, waited, recorder)
        meter = None
        if self._counts:
            meter = self.new_meter(self.new_ledger(run_metadata), self.device, plan.graph.producer)
            self.device.ledger.reset_peak()
        new_context = self.new_context
        if sequences is not None:
            new_context = partial(new_context, sequences=sequences)
        new_executor = executor_for(options, recorder, self._device_name) if options or recorder else Executor
        executor = new_executor(
            plan,
            self.resources,
            new_context=new_context,
            use_threads=self.settings.worker_threads,
            meter=meter,
            turns=turns,
            ticket=ticket,
        )
        self.running.add(executor)
        followed = None if options is None else recorder
        if followed is not None:
            self.recorders.append(followed)
        try:
            if timeout_seconds is None:
                await executor.run(feeds)
            else:
                with trio.move_on_after(timeout_seconds - waited) as scope:
                    await executor.run(feeds)
                if scope.cancelled_caught:
                    raise too_late(timeout_seconds)
            return executor.results()
        finally:
            self.running.discard(executor)
            if followed is not None:
                self.recorders.remove(followed)
                followed.close()
            if executor.container is not None:
                executor.container.clear()
            if meter is not None:
                meter.close()
                meter.step.close()
            if self.ended:
                for call in tuple(self.ended):
                    call()
            if run_metadata is not None:
                run_metadata.wall_seconds = perf_counter() - started
                self._describe(run_metadata, executor, meter)

    def _describe(self, metadata: RunMetadata, executor: Executor, meter: MemoryMeter | None) -> None:
        """Record the statistics of a step."""
        metadata.items = len(executor.plan.items)
        metadata.heavy_items = executor.heavy_items
        metadata.async_items = executor.async_items
        metadata.peak_bytes = None if meter is None else meter.step.peak
        metadata.allocations = None if meter is None else meter.step.allocations
        metadata.peak_holders = {} if meter is None else meter.step.holders_at_peak()
        metadata.devices = {self._device_name: None if meter is None else self.device.ledger.peak}

    async def _begin(
        self, turns: Turns, timeout_seconds: float | None, waited: float, recorder: Recorder | None
    ) -> tuple[Ticket | None, float]:
        """Wait for a turn to begin a step; return its ticket, if it has one, and the seconds waited."""
        started, is_unfinished = perf_counter(), True
        try:
            found = await self._turn_to_begin(turns, timeout_seconds, waited)
            is_unfinished = False
            return found
        finally:
            if recorder is not None:
                times = started, perf_counter()
                recorder.wait("turn to begin", self._device_name, *times, is_unfinished=is_unfinished)

    async def _turn_to_begin(
        self, turns: Turns, timeout_seconds: float | None, waited: float
    ) -> tuple[Ticket | None, float]:
        ticket: Ticket | None = None
        error: OpError | None = None
        if timeout_seconds is None:
            ticket = await turns.begin()
        else:
            before = trio.current_time()
            with trio.move_on_after(timeout_seconds - waited) as scope:
                ticket = await turns.begin()
            waited += trio.current_time() - before
            # The turn may have come when the time was over: a woken task is not cancelled any more.
            if scope.cancelled_caught or waited >= timeout_seconds:
                error = too_late(timeout_seconds)
        if self._is_closed:
            error = CancelledError(SESSION_CLOSED)
        if error is not None:
            if ticket is not None:
                turns.end(ticket)
            raise error
        return ticket, waited

    def new_context(
        self, plan: Plan, container: StepContainer, sequences: ResourceManager | None = None
    ) -> KernelContext:
        """Make the context of the kernels of a new step."""
        return KernelContext(
            resources=self.resources,
            step_container=container,
            device=self._device_name,
            step_id=next(_step_ids),
            functions=plan.caller,
            sequences=sequences,
            **self.common,
        )

    @property
    def recorder(self) -> Recorder | None:
        """Return the recorder of the traced step that began last, of those that run."""
        return self.recorders[-1] if self.recorders else None

    def new_step_id(self) -> int:
        """Return another number for every step of this process."""
        return next(_step_ids)

    def new_ledger(self, metadata: RunMetadata | None = None) -> Ledger:
        """Return a ledger that counts the tensors of one step, with a log if there is `metadata` to fill."""
        ledger = Ledger(self.settings.memory_limit_bytes, "memory_limit_bytes")
        if metadata is not None:
            ledger.log = []
        return ledger

    def new_meter(self, ledger: Ledger, device: Device, producer: int) -> MemoryMeter:
        """Return a meter that counts the part of a step that runs on one device."""
        return MemoryMeter(ledger, device, producer, self.ledger)

    @property
    def turns(self) -> Turns:
        """Return the turns of the trio run in which steps run."""
        if self._turns is None:
            self._turns = current_turns()
        return self._turns

    @property
    def known_turns(self) -> Turns | None:
        """Return the turns as `turns` does, for callers outside of that run; None before its first step."""
        return self._turns

    async def compile_in_turns(self, plan: TieredPlan) -> None:
        """Compile a hot plan before its next step: a small one in turns, a large one beside the event loop.

        A cancelled caller leaves the rest to another step. Nothing is raised: the step has its results.
        """
        if not self._is_small(plan):
            self.compile(plan)
            return
        job = plan.begin_job()
        try:
            await finish_in_turns(job, self.turns)
        except Exception:
            _complain(plan)
        finally:
            plan.leave_job(job)

    def compile(self, plan: TieredPlan) -> None:
        """Compile a hot plan: a small one at once, a large one beside the event loop."""
        if self._is_small(plan):
            plan.compile()
            return
        plan.begin_compiling()

        async def compile_beside() -> None:
            try:
                await trio.to_thread.run_sync(plan.compile, abandon_on_cancel=True)
            except Exception:
                _complain(plan)

        trio.lowlevel.spawn_system_task(compile_beside, name="flowengine compile")

    def _is_small(self, plan: TieredPlan) -> bool:
        return plan.nodes <= INLINE_NODES or not self.settings.worker_threads

    async def checkpoint(self) -> None:
        """Give others a turn. Raises CancelledError if the session was closed meanwhile."""
        await trio.lowlevel.checkpoint()
        if self._is_closed:
            raise CancelledError(SESSION_CLOSED)

    def cancel_all(self) -> None:
        """End every running step, and those that have yet to begin, with CancelledError."""
        self._is_closed = True
        for executor in tuple(self.running):
            executor.request_cancel()


def _complain(plan: TieredPlan) -> None:
    # A fault of ours, which would end the host's whole trio run from here. Its steps continue.
    logger.exception("a plan of %d items could not be compiled and stays interpreted", plan.nodes)


def too_late(timeout_seconds: float) -> DeadlineExceededError:
    """Build the error of a step that has used up its timeout."""
    return DeadlineExceededError(f"the step did not end within {timeout_seconds:g} s")
