"""A task's part of a step: begun, and ended once, with a trio task or without.

    begun ──► in a trio task ──► partners met ──┐
      └───── nothing to wait for ───────────────┴──► runs ──► ended: its values, its error, or abandoned

A part that can begin at once runs where its message was read, and continues where its tensors arrive. A part
gets a trio task if it has to meet partners first, records metadata, or runs on several devices. The same code
ends both.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import trio

from flowengine.cluster.followed_part import FollowedPart
from flowengine.cluster.messages import WELL, PartStatus, StepEnd, error_to_table
from flowengine.cluster.worker.registered_partitions import RegisteredGraph
from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, OpError, UnavailableError
from flowengine.runtime.partitions import JointStep, PartitionRunner
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.receives import StepGroup
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.runtime.step import StepRunner
from flowengine.runtime.taskless import Cancellable, TasklessSteps
from flowengine.transport.tensors.exchange import Exchange
from flowengine.transport.tensors.rendezvous import LocalRendezvous
from flowengine.transport.tensors.step_rendezvous import StepRendezvous

#: A function that is called with the end of a part and its values, or with the error.
PartDone: TypeAlias = Callable[[StepEnd | None, list[Any], BaseException | None], None]


class RunningParts:
    """The parts of steps that run at one task.

    task        the task
    exchange    the rendezvous of its steps with other tasks
    joint       {step: its partitions here}
    nursery     the nursery for parts that need a trio task; None until the task serves
    """

    def __init__(self, task: str, exchange: Exchange, runner: StepRunner, *, compiles: bool) -> None:
        self.task = task
        self.exchange = exchange
        self.runner = runner
        self.compiles = compiles
        self.partitions = PartitionRunner(runner, LocalRendezvous, compiles=compiles)
        self.nursery: trio.Nursery | None = None
        self.joint: dict[int, StepGroup] = {}
        self.run = 0
        self.failed = 0
        self.running = 0
        self._is_ending = False
        self._idle = trio.lowlevel.ParkingLot()

    def began(self, number: int, group: StepGroup) -> None:
        """Record that the part of the step runs."""
        self.running += 1
        self.joint[number] = group

    def ended(self, number: int) -> None:
        """Record that the part of the step is over."""
        del self.joint[number]
        self.running -= 1
        if not self.running and self._idle:
            self._idle.unpark_all()

    async def wait_idle(self) -> None:
        """Wait until no part runs."""
        while self.running:
            await self._idle.park()

    def steps_of(self, graph: RegisteredGraph) -> TasklessSteps:
        """Return the `TasklessSteps` of a graph that needs no trio task, made on first use."""
        if graph.steps is None:
            assert self.nursery is not None, "a step was begun before there was a nursery"
            graph.steps = TasklessSteps(self.runner, graph.plan, self.nursery, compiles=self.compiles)
        return graph.steps

    def as_seen_by_others(self, error: OpError) -> OpError:
        """Return an error, or the loss of this task.

        The task's queues may have been closed before the part was cancelled. For a master that still waits
        for the step, and so has not cancelled it, the task is lost.
        """
        if self._is_ending or (isinstance(error, CancelledError) and is_cancelled_here()):
            return UnavailableError(f"{self.task} has ended while it ran its part of the step")
        return error

    # Steps that wait in vain.

    def probe(self, step: int) -> PartStatus | None:
        """Return the status of the part of the step; None while it does anything, or has not begun."""
        traffic, group = self.exchange.traffic(step), self.joint.get(step)
        if traffic is None or (group is not None and not group.is_asleep):
            return None
        first = group.first() if group is not None else None
        return PartStatus(*traffic, [] if first is None else [first[0], *first[1]])

    def give_up(self, step: int, first: Sequence[int]) -> None:
        """Give up Recvs of a step that is at rest everywhere."""
        group = self.joint.get(step)
        if group is not None and first and group.is_asleep:
            group.give_up((first[0], tuple(first[1:])))

    def close(self) -> None:
        """End the running parts with UnavailableError, and free values that devices keep between steps."""
        self._is_ending = True
        self.runner.cancel_all()
        self.partitions.close()


class PartRun:
    """One task's part of one step."""

    __slots__ = (
        "_done",
        "_followed",
        "_graph",
        "_is_given_up",
        "_metadata",
        "_number",
        "_parts",
        "_rendezvous",
        "_running",
    )

    def __init__(self, parts: RunningParts, graph: RegisteredGraph, number: int, done: PartDone) -> None:
        """`done` is called once, perhaps before `begin` returns."""
        self._parts = parts
        self._graph = graph
        self._number = number
        self._done: PartDone | None = done
        self._is_given_up = False
        #: None until it runs.
        self._rendezvous: StepRendezvous | None = None
        self._running: Cancellable | None = None
        self._metadata: RunMetadata | None = None
        self._followed: FollowedPart | None = None

    def begin(self, feeds: Sequence[Value]) -> None:
        """Run as far as possible now, without a trio task."""
        parts, graph, number = self._parts, self._graph, self._number
        try:
            rendezvous = parts.exchange.begin_step(number, graph.tasks)
        except OpError as error:
            self._ended([], (), error)
            return
        self._rendezvous = rendezvous
        steps = graph.steps or parts.steps_of(graph)
        step = steps.make(graph.spread(feeds), number, rendezvous, self._ended)
        parts.began(number, step)
        self._running = step
        step.begin()

    def begin_in_task(
        self,
        meet: Callable[[RegisteredGraph], Awaitable[None]],
        feeds: Sequence[Value],
        *,
        wants_metadata: bool,
        followed: FollowedPart | None = None,
    ) -> None:
        """Run in a trio task, once `meet` has found the partners.

        followed   of a part that is traced or guarded
        """
        assert self._parts.nursery is not None, "a step was begun before there was a nursery"
        if wants_metadata:
            self._metadata = RunMetadata() if followed is None else followed.metadata
        if followed is not None:
            self._followed = followed
            followed.begin()
        scope = self._running = trio.CancelScope()
        self._parts.nursery.start_soon(self._run, scope, meet, feeds)

    async def _run(
        self,
        scope: trio.CancelScope,
        meet: Callable[[RegisteredGraph], Awaitable[None]],
        feeds: Sequence[Value],
    ) -> None:
        results: list[Any] = []
        hot: Sequence[TieredPlan] = ()
        error: BaseException | None = self._cancelled()
        parts, graph, number = self._parts, self._graph, self._number
        followed = self._followed
        try:
            with scope:
                await meet(graph)
                rendezvous = self._rendezvous = parts.exchange.begin_step(number, graph.tasks)
                group = graph.make_group()
                parts.began(number, group)
                options = None if followed is None else followed.options
                joint = JointStep(number, rendezvous, group)
                results, hot = await parts.partitions.run(
                    graph.plan, graph.spread(feeds), None, self._metadata, options, joint=joint
                )
                error = None
        except Exception as raised:
            error = raised
        finally:
            self._ended(results, hot, error)

    def cancel(self) -> None:
        """Abandon the part, and tell the other tasks; without effect on a part that is over."""
        if self._done is not None and self._running is not None:
            self._is_given_up = True
            self._running.cancel()

    def _cancelled(self) -> CancelledError:
        return CancelledError(f"step {self._number} was cancelled")

    # How it ends.

    def _ended(self, results: list[Any], hot: Sequence[TieredPlan], error: BaseException | None) -> None:
        done, self._done, self._running = self._done, None, None
        assert done is not None, "a part of a step ended twice"
        parts, graph, rendezvous = self._parts, self._graph, self._rendezvous
        if rendezvous is not None:
            parts.ended(self._number)
        if self._followed is not None:
            self._followed.end(error)
        if error is None:
            parts.run += 1
            well = WELL if self._metadata is None else StepEnd(metadata=_table(self._metadata))
            if hot:
                try:
                    for plan in hot:
                        parts.runner.compile(plan)
                except Exception as failed:
                    done(None, [], failed)
                    return
            done(well, [results[index] for index in graph.fetches] if results else results, None)
        elif rendezvous is None:
            done(None, [], error)
        elif isinstance(error, OpError) and not self._is_given_up:
            done(self._failed(error, rendezvous), [], None)
        else:
            rendezvous.abort(self._cancelled())
            parts.exchange.end_step(self._number)
            done(None, [], error)

    def _failed(self, error: OpError, rendezvous: StepRendezvous) -> StepEnd:
        parts = self._parts
        parts.failed += 1
        error = parts.as_seen_by_others(error)
        rendezvous.abort(error)
        if error.device is None:
            error.device = self._graph.plan.parts[0].device.name
        return StepEnd(error_to_table(error), not rendezvous.has_raised)


class _EndedPart:
    """A part that was over before anybody could abandon it."""

    def cancel(self) -> None:
        return


ENDED_PART: Final = _EndedPart()


def is_cancelled_here() -> bool:
    """Whether the calling task is cancelled, as all are of a server that ends."""
    return trio.current_effective_deadline() == -math.inf


def _table(metadata: RunMetadata) -> dict[str, Any]:
    """Return the metadata of a step as a table that msgpack can carry."""
    return {
        "wall_seconds": metadata.wall_seconds,
        "items": metadata.items,
        "heavy_items": metadata.heavy_items,
        "async_items": metadata.async_items,
        "peak_bytes": metadata.peak_bytes,
        "devices": dict(metadata.devices),
        "transfers": {edge: list(counts) for edge, counts in metadata.transfers.items()},
    }


__all__ = ["ENDED_PART", "PartDone", "PartRun", "RunningParts", "is_cancelled_here"]
