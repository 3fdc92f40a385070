"""A step of several partitions: one nursery, one rendezvous, one state machine for each device.

The first error ends the step everywhere: it aborts the rendezvous, so that all waiting tasks get it, and
cancels the other partitions. Errors that they raise because of that are not reported instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import trio

from flowengine.core.errors import CancelledError, DeadlineExceededError, OpError, UnavailableError
from flowengine.core.rendezvous import Rendezvous
from flowengine.core.run_options import RunOptions
from flowengine.devices.allocation import Ledger
from flowengine.devices.device import Device, is_lost
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import ResourceManager, StepContainer
from flowengine.runtime.executor import Executor
from flowengine.runtime.failures import first_of
from flowengine.runtime.memory import MemoryMeter
from flowengine.runtime.partitioned_plan import PartitionedPlan
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.receives import Group, Receives
from flowengine.runtime.run_metadata import RunMetadata, recorder_of
from flowengine.runtime.step import StepRunner
from flowengine.runtime.streams.counted_rendezvous import CountedRendezvous
from flowengine.runtime.streams.device_loss import loss_of
from flowengine.runtime.streams.device_resources import DeviceResources
from flowengine.runtime.streams.device_transfers import DeviceTransfers
from flowengine.runtime.tracing.observed_steps import executor_for

#: Makes the rendezvous of one step.
MakeRendezvous: TypeAlias = Callable[[], Rendezvous]


class JointStep(NamedTuple):
    """A step with parts in other processes: its number there too, and the rendezvous that reaches them.

    The end of the local part is not the end of the step: its initiator announces that to the rendezvous.
    group    the partitions that run here
    """

    number: int
    rendezvous: Rendezvous
    group: Group


class PartitionRunner:
    """Runs partitioned plans on the devices of one session, beside the steps of one device.

    when_lost   called with a lost device: returns whether the next step finds a successor
    """

    def __init__(self, runner: StepRunner, make_rendezvous: MakeRendezvous, *, compiles: bool = True) -> None:
        self.when_lost: Callable[[Device], bool] | None = None
        self._runner = runner
        self._compiles = compiles
        self.new_rendezvous = make_rendezvous
        self.new_step_id = runner.new_step_id
        self._held = DeviceResources()
        #: The steps under way.
        self._steps: set[_PlanStep] = set()

    async def run(
        self,
        plan: PartitionedPlan,
        feeds: Sequence[Any],
        timeout_seconds: float | None = None,
        run_metadata: RunMetadata | None = None,
        options: RunOptions | None = None,
        waited: float = 0.0,
        joint: JointStep | None = None,
    ) -> tuple[list[Any], list[TieredPlan]]:
        """Run one step; return its fetched values, and the plans that have become hot.

        options  say whether values stay on their devices; joint: the step, if other processes take part in
        it. The rest is as in `StepRunner.run`.
        """
        started, results = perf_counter(), list[Any]()
        stay = options is not None and options.keep_on_device
        await self._runner.checkpoint()
        recorder = recorder_of(options, run_metadata, waited, self._runner.device.name)
        make = partial(executor_for, options, recorder)
        compiles = self._compiles and not (options is not None and options.looks_at_values)
        step = _PlanStep(self, plan, feeds, compiles, run_metadata, joint, make)
        self._runner.running.update(step.executors)
        if recorder is not None:
            self._runner.recorders.append(recorder)
        self._steps.add(step)
        try:
            if timeout_seconds is None:
                await step.run()
                results = await step.results(stay)
            else:
                with trio.move_on_after(timeout_seconds - waited) as scope:
                    await step.run()
                    results = await step.results(stay)
                if scope.cancelled_caught:
                    raise DeadlineExceededError(f"the step did not end within {timeout_seconds:g} s")
        except OpError:
            for device in filter(is_lost, step.devices):
                raise self._loss(step, device) from None
            raise
        finally:
            self._steps.discard(step)
            step.close()
            self._runner.running.difference_update(step.executors)
            if recorder is not None:
                self._runner.recorders.remove(recorder)
                recorder.close()
            for call in tuple(self._runner.ended):
                call()
            if run_metadata is not None:
                run_metadata.wall_seconds = perf_counter() - started
                step.describe(run_metadata)
        return results, step.hot(perf_counter() - started) if self._compiles else []

    def _loss(self, step: _PlanStep, device: Device) -> UnavailableError:
        """Return the error of a step with a part on a lost device; other ones end as well."""
        gone = self._held.lost(device)
        is_followed = self.when_lost is not None and self.when_lost(device)
        for other in self._steps - {step}:
            if device in other.devices:
                other.lose(device)
        return loss_of(device, step.in_flight(device), gone, is_followed=is_followed)

    def close(self) -> None:
        """Free the values that devices with memory of their own keep between steps."""
        self._held.close()

    @property
    def resources(self) -> Mapping[str, ResourceManager]:
        """Return {name of a device with memory of its own: its resources between steps}, if it has any."""
        return self._held.by_name

    # -- the objects of a step -----------------------------------------------------------------------

    def new_ledger(self, metadata: RunMetadata | None) -> Ledger | None:
        """Return the ledger of a step, if allocations are counted at all."""
        settings = self._runner.settings
        return self._runner.new_ledger(metadata) if settings.counts_allocations else None

    def new_meter(self, ledger: Ledger, device: Device, producer: int) -> MemoryMeter:
        """Return a meter that counts one partition of a step."""
        return self._runner.new_meter(ledger, device, producer)

    def context_of(
        self, device: Device, step_id: int, container: StepContainer, rendezvous: Rendezvous, plan: Plan
    ) -> KernelContext:
        """Return the context of one partition. Devices that share host memory share its resources, too."""
        is_host = device.shares_host_memory
        return KernelContext(
            resources=self._runner.resources if is_host else self._held.of(device),
            step_container=container,
            rendezvous=rendezvous,
            device=device.name,
            hardware=None if is_host else device,
            step_id=step_id,
            functions=plan.caller,
            **self._runner.common,
        )

    @property
    def uses_threads(self) -> bool:
        return self._runner.settings.worker_threads


class _PlanStep:
    """One run of a partitioned plan."""

    def __init__(
        self,
        runner: PartitionRunner,
        plan: PartitionedPlan,
        feeds: Sequence[Any],
        compiles: bool,
        metadata: RunMetadata | None,
        joint: JointStep | None,
        make: Callable[[str], Callable[..., Executor]],
    ) -> None:
        self._plan = plan
        self._error: OpError | None = None
        self._scope: trio.CancelScope | None = None
        self._interrupt: BaseException | None = None
        self._is_joint = joint is not None
        #: The number of partitions that have not ended.
        self._parts_left = len(plan.parts)
        rendezvous = runner.new_rendezvous() if joint is None else joint.rendezvous
        self._counted = None if metadata is None else CountedRendezvous(rendezvous)
        self._rendezvous: Rendezvous = self._counted if self._counted is not None else rendezvous
        self._ledger = runner.new_ledger(metadata)
        self._containers: list[StepContainer] = []
        self._meters: list[MemoryMeter] = []
        step_id = runner.new_step_id() if joint is None else joint.number
        shared = self._new_container()
        group = Group() if joint is None else joint.group
        self.executors: list[Executor] = []
        self._feeds: list[list[Any]] = []
        self._plans: list[Plan] = []
        self._exchanges: list[Receives] = []
        #: {name of a device with memory of its own: its transfers}
        self._crossings: dict[str, DeviceTransfers] = {}
        for part in plan.parts:
            device = part.device
            is_host = device.shares_host_memory
            values = [feeds[index] for index in part.feeds]
            chosen = part.tiers.choose(values) if compiles else part.tiers.interpreted
            container = shared if is_host else self._new_container()
            exchange = Receives(group)
            context = runner.context_of(device, step_id, container, self._rendezvous, chosen)
            if not is_host:
                count = None if self._counted is None else self._counted.count
                launches = None if metadata is None else metadata.launches
                context.crossing = self._crossings[device.name] = DeviceTransfers(
                    device, uses_threads=runner.uses_threads, count=count, launches=launches
                )
            meter = None
            if self._ledger is not None:
                meter = context.memory = runner.new_meter(self._ledger, device, chosen.graph.producer)
                self._meters.append(meter)
            executor = make(device.name)(
                chosen, context.resources, context=context, meter=meter, exchange=exchange
            )
            executor.uses_threads = runner.uses_threads
            exchange.serve(executor)
            self.executors.append(executor)
            self._exchanges.append(exchange)
            self._feeds.append(values)
            self._plans.append(chosen)
            if self._ledger is not None:
                device.ledger.reset_peak()

    def _new_container(self) -> StepContainer:
        self._containers.append(StepContainer())
        return self._containers[-1]

    @property
    def devices(self) -> list[Device]:
        """Return the devices that have a part of it."""
        return [part.device for part in self._plan.parts]

    def in_flight(self, device: Device) -> Sequence[Node]:
        """Return the nodes launched on a device and not yet seen done."""
        crossing = self._crossings.get(device.name)
        return () if crossing is None else crossing.in_flight

    def lose(self, device: Device) -> None:
        """End the step, because a device with a part of it is lost."""
        self._fail(UnavailableError(f"{device.name} is lost"))
        if self._scope is not None:
            self._scope.cancel()

    async def run(self) -> None:
        """Run all partitions to their ends. Raises the first error, or trio.Cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                for index in range(len(self.executors)):
                    nursery.start_soon(self._run_part, index, nursery.cancel_scope)
        except BaseExceptionGroup as group:
            self._interrupt = first_of(group)
        interrupt, self._interrupt = self._interrupt, None
        error, self._error = self._error, None
        try:
            if interrupt is not None and not isinstance(interrupt, trio.Cancelled):
                raise interrupt
            if error is not None:
                raise error
            is_cancelled = interrupt is not None and self._parts_left > 0
        finally:
            del interrupt, error  # they refer to this frame
        if is_cancelled:
            # The caller's own cancellation: raised anew, here, where its scope encloses it.
            await trio.lowlevel.checkpoint_if_cancelled()
            raise CancelledError("the step was cancelled")

    async def _run_part(self, index: int, scope: trio.CancelScope) -> None:
        failed = True
        try:
            await self.executors[index].run(self._feeds[index], has_turn=False)
            failed = False
            self._parts_left -= 1
        except OpError as error:
            self._fail(error)
            scope.cancel()
        finally:
            self._exchanges[index].finish(failed=failed)

    def _fail(self, error: OpError) -> None:
        """Keep the first error and tell all waiting tasks; errors that it did not cause become notes."""
        first = self._error
        if first is None:
            self._error = error
            self._rendezvous.abort(error)
        elif error is not first:
            first.add_note(f"also: {type(error).__name__}: {error}")

    async def results(self, stay: bool) -> list[Any]:
        """Return the fetched values in host memory, or in place; waits for devices with streams."""
        values: list[Any] = [None] * self._plan.fetches
        for part, executor in zip(self._plan.parts, self.executors, strict=True):
            found = executor.results()
            crossing = self._crossings.get(part.device.name)
            if crossing is not None:
                ports = [str(port) for _, _, port in executor.plan.fetches]
                found = await crossing.results(found, ports, stay=stay)
            found.reverse()
            for index in part.fetches:
                values[index] = found.pop()  # popped, so that the caller's list alone holds it
        return values

    def hot(self, seconds: float) -> list[TieredPlan]:
        """Learn from the step; return the plans that should be compiled now."""
        return [
            part.tiers
            for part, plan, values in zip(self._plan.parts, self._plans, self._feeds, strict=True)
            if plan is part.tiers.interpreted and part.tiers.ran(values, seconds)
        ]

    def close(self) -> None:
        """Leave nothing behind."""
        if not self._is_joint:
            self._rendezvous.abort(CancelledError("the step has ended"))
            self._rendezvous.forget()
        for container in self._containers:
            container.clear()
        for meter in self._meters:
            meter.close()
        if self._ledger is not None:
            self._ledger.close()

    def describe(self, metadata: RunMetadata) -> None:
        """Record the statistics of the step."""
        metadata.items = sum(len(plan.items) for plan in self._plans)
        metadata.heavy_items = sum(executor.heavy_items for executor in self.executors)
        metadata.async_items = sum(executor.async_items for executor in self.executors)
        metadata.peak_bytes = None if self._ledger is None else self._ledger.peak
        metadata.allocations = None if self._ledger is None else self._ledger.allocations
        metadata.peak_holders = {} if self._ledger is None else self._ledger.holders_at_peak()
        devices = [part.device for part in self._plan.parts]
        metadata.devices = {
            device.name: None if self._ledger is None else device.ledger.peak for device in devices
        }
        if self._counted is not None:
            counts = self._counted.counts
            metadata.transfers = {f"{edge} -> {target}": count for (edge, target), count in counts.items()}
            # Half of the bytes are sent, so as many were saved.
            # A task of a cluster does not hear of transfers between tasks.
            known = self._plan.transfers
            metadata.bytes_saved = sum(
                size for key, (_, size) in counts.items() if key in known and known[key].is_compressed
            )


__all__ = ["JointStep", "PartitionRunner"]
