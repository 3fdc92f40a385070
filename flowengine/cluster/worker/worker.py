"""The worker service of a task: its devices and state, the partitions registered there, its part of steps.

A master registers a request's partitions once and then asks for each step with one message. The state that
steps leave (variables, queues, tables) belongs to the task, and all masters and clients share it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flowengine.cluster.devices import described
from flowengine.cluster.ids import from_ranges
from flowengine.cluster.links import Links
from flowengine.cluster.messages import PartStatus, RegisterGraph, RunGraph
from flowengine.cluster.worker.followed_parts import FollowedParts
from flowengine.cluster.worker.parts import ENDED_PART, PartDone, PartRun, RunningParts
from flowengine.cluster.worker.registered_partitions import GraphRegistry, Registrar, owner_of
from flowengine.core.arrays import Value
from flowengine.core.config import Settings
from flowengine.core.errors import AbortedError, InvalidArgumentError
from flowengine.devices.device import DeviceSet
from flowengine.kernels.common.generators import places_of, set_places
from flowengine.kernels.registry import KernelRegistry
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning.placing import offers_of
from flowengine.runtime.step import StepRunner
from flowengine.runtime.taskless import Cancellable
from flowengine.transport.tensors.exchange import Exchange


class Worker:
    """One task's devices, state and registered partitions.

    resources   state shared by everything that runs on the task
    exchange    the rendezvous of its steps with other tasks
    graphs      the graphs that masters have registered
    parts       the parts of steps that run here
    followed   those of them that are traced or guarded
    """

    def __init__(
        self,
        *,
        task: str,
        incarnation: int,
        devices: DeviceSet,
        resources: ResourceManager,
        settings: Settings,
        kernels: KernelRegistry,
        exchange: Exchange,
    ) -> None:
        self.task = task
        self.incarnation = incarnation
        self.devices = devices
        self.resources = resources
        self.exchange = exchange
        self._runner = StepRunner(resources, settings, devices.default)
        compiles = settings.compiles_plans
        self.graphs = GraphRegistry(devices, kernels, self._runner, compiles)
        self.followed = FollowedParts()
        self.parts = RunningParts(task, exchange, self._runner, compiles=compiles)

    # -- graphs -------------------------------------------------------------------------------------

    async def register(
        self, registrar: Registrar, message: RegisterGraph, tensors: Sequence[Value], links: Links
    ) -> None:
        """Register a graph: see `GraphRegistry.register`."""
        await self.graphs.register(registrar, message, tensors, links)

    def deregister(self, registrar: Registrar, handles: Sequence[int], sessions: Sequence[int] = ()) -> None:
        """Forget the graphs that a master registered under these handles. Running steps go on.

        State that belongs to these sessions alone, such as one-shot iterators, goes with them.
        """
        self.graphs.drop(registrar, handles)
        for session in sessions:
            self.resources.clear(owner_of(registrar, session))
            self.followed.forget(registrar, session)

    def forget(self, task: str, incarnation: int) -> None:
        """Forget all graphs that one lost master registered, and the state of its sessions."""
        registrar = Registrar(task, incarnation)
        self.followed.forget(registrar)
        for session in self.graphs.drop_all(registrar):
            self.resources.clear(owner_of(registrar, session))

    def task_lost(self, task: str) -> None:
        """Record that a connection to this task is lost."""
        self.graphs.partner_lost(task)

    # -- steps --------------------------------------------------------------------------------------

    def begin(
        self, registrar: Registrar, message: RunGraph, feeds: Sequence[Value], done: PartDone
    ) -> Cancellable:
        """Begin the task's part of a step, without waiting.

        done   called once, perhaps before this returns, with the end of the part and its values; with
        AbortedError for a handle that is not registered (any more): the master registers again
        """
        if message.ended:
            self.end_steps(message.ended)
        graph = self.graphs.find((registrar, message.handle))
        if graph is None:
            unknown = (
                f"{self.task} knows no graph {message.handle} of {registrar.task}: it may have restarted"
            )
            done(None, [], AbortedError(unknown))
            return ENDED_PART
        if len(feeds) != len(graph.feeds):
            wrong = f"step {message.step} was begun with {len(feeds)} feeds, it has {len(graph.feeds)} here"
            done(None, [], InvalidArgumentError(wrong))
            return ENDED_PART
        part = PartRun(self.parts, graph, message.step, done)
        if graph.needs_no_task and not message.wants_metadata and self.graphs.has_met(graph):
            part.begin(feeds)
        else:
            found = self.followed.find(registrar, message.step) if message.wants_metadata else None
            part.begin_in_task(self.graphs.meet, feeds, wants_metadata=message.wants_metadata, followed=found)
        return part

    @property
    def steps_running(self) -> int:
        """How many parts of steps run."""
        return self.parts.running

    def probe(self, step: int) -> PartStatus | None:
        """Return the status of a part: see `RunningParts.probe`."""
        return self.parts.probe(step)

    def give_up(self, step: int, first: Sequence[int]) -> None:
        """Give up Recvs: see `RunningParts.give_up`."""
        self.parts.give_up(step, first)

    async def wait_idle(self) -> None:
        """Wait until no step runs here."""
        await self.parts.wait_idle()

    def end_steps(self, ranges: list[int]) -> None:
        """Forget steps that are over everywhere."""
        if len(ranges) == 2 and ranges[0] == ranges[1]:
            self.exchange.end_step(ranges[0])
            return
        for first, last in from_ranges(ranges):
            for number in range(first, last + 1):
                self.exchange.end_step(number)

    # -- the rest -----------------------------------------------------------------------------------

    def describe_devices(self) -> list[dict[str, Any]]:
        """Return each device as a map; see `cluster.devices.described`."""
        return [described(offer) for offer in offers_of(self.devices)]

    async def reset(self, containers: Sequence[str]) -> None:
        """Clear containers; all of them if none is named.

        The tasks of the objects in them have ended then.
        """
        self.resources.reset(containers)
        await self.resources.ended()

    def random_places(self, sequences: Collection[str]) -> dict[str, str]:
        """Return the positions of these random sequences on this task."""
        return places_of(self.resources, sequences)

    def set_random_places(self, sequences: Collection[str], places: Mapping[str, str]) -> None:
        """Set these sequences to their positions; those without one begin anew."""
        set_places(self.resources, sequences, places)

    def statistics(self) -> dict[str, Any]:
        """Return counts of the task's steps and graphs, and the statistics of its exchange."""
        found = self.exchange.statistics()._asdict()
        return {
            "steps_run": self.parts.run,
            "steps_failed": self.parts.failed,
            "steps_running": self.parts.running,
            "graphs": len(self.graphs),
            **{f"exchange_{name}": value for name, value in found.items()},
        }

    def close(self) -> None:
        """End the running steps with UnavailableError and free the state."""
        self.parts.close()
        self.graphs.clear()
        self.resources.close()


__all__ = ["Worker"]
