"""The worker service of a task: its devices and state, the partitions registered there, its part of steps.

A master registers a request's partitions once and then asks for each step with one message. What the task's
steps leave behind (variables, queues, tables) is the task's, and shared by all masters and clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import trio

from flowengine.cluster.devices import described
from flowengine.cluster.ids import from_ranges
from flowengine.cluster.links import Links
from flowengine.cluster.messages import WELL, Done, RegisterGraph, RunGraph, Standing, error_to_table
from flowengine.cluster.together import together
from flowengine.core.arrays import Value
from flowengine.core.config import RunMetadata, Settings
from flowengine.core.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from flowengine.core.names import parse_tensor_name
from flowengine.core.rendezvous import Received, Rendezvous, RendezvousKey
from flowengine.devices.device import DeviceSet
from flowengine.ir.functions import FunctionLibrary
from flowengine.ir.graph import Graph, OutputPort
from flowengine.ir.graphdef import graph_from_def, graph_to_def
from flowengine.ir.graphfile import parse_graph_def
from flowengine.kernels.common.generators import places_of, set_places
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext
from flowengine.passes.cut.partition import Partition, Partitioned
from flowengine.resources.container import ResourceManager
from flowengine.runtime.exchange import Group, JointGroup
from flowengine.runtime.functions import FunctionTable
from flowengine.runtime.partitions import JointStep, PartitionedPlan, PartitionRunner
from flowengine.runtime.placing import offers_of
from flowengine.runtime.step import StepRunner
from flowengine.runtime.taskless import Running, TasklessSteps, needs_no_task
from flowengine.runtime.tiers import TieredPlan
from flowengine.transport.tensors.exchange import Exchange
from flowengine.transport.tensors.rendezvous import LocalRendezvous
from flowengine.transport.tensors.step_rendezvous import StepRendezvous


class Master(NamedTuple):
    """Who registers graphs: one life of one task."""

    task: str
    incarnation: int


#: What is called with how a part of a step ended and what it gives, or with the error.
PartDone: TypeAlias = Callable[[Done | None, list[Any], BaseException | None], None]


class _Over:
    """What is over before anybody can give it up."""

    def cancel(self) -> None:
        return


_OVER: Final = _Over()


class _Registered:
    """A request's partitions on this task."""

    __slots__ = (
        "feeds",
        "fetches",
        "links",
        "make_group",
        "message",
        "needs_no_task",
        "partners",
        "plan",
        "size",
        "steps",
        "tasks",
    )

    def __init__(self, message: RegisterGraph, plan: PartitionedPlan, links: Links) -> None:
        self.message = message
        self.links = links
        self.plan = plan
        self.tasks = message.tasks
        self.partners = message.partners.keys()
        self.needs_no_task = False
        #: What makes its steps, where they need no task; made with the first.
        self.steps: TasklessSteps | None = None
        #: A part that exchanges nothing with others can tell by itself when it waits in vain.
        self.make_group: type[Group] = JointGroup if message.partners else Group
        self.size = len(message.feeds)
        #: Positions, among the request's, of what comes with each step and of what goes back.
        self.feeds = sorted({index for part in plan.parts for index in part.feeds})
        self.fetches = sorted({index for part in plan.parts for index in part.fetches})

    def spread(self, feeds: Sequence[Value]) -> list[Any]:
        """The feeds that came, at their places among the request's."""
        values: list[Any] = [None] * self.size
        for index, value in zip(self.feeds, feeds, strict=True):
            values[index] = value
        return values


class _Witness:
    """A step's rendezvous that remembers whether its first error was raised here."""

    def __init__(self, inner: StepRendezvous) -> None:
        self._inner = inner
        self._is_over = False
        self.has_raised = False

    def send(self, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        self._inner.send(key, value, is_dead)

    async def wait_received(self, key: RendezvousKey) -> tuple[Value, bool]:
        return await self._inner.wait_received(key)

    def receive(self, key: RendezvousKey, done: Received) -> None:
        self._inner.receive(key, done)

    def abort(self, error: Exception) -> None:
        if not self._is_over:
            self._is_over = True
            self.has_raised = not self._inner.has_failed
            self._inner.abort(error)


class Worker:
    """One task's devices, state and registered partitions.

    resources   shared by everything that runs on the task
    exchange    the rendezvous of its steps with other tasks
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
        self._settings = settings
        self._kernels = kernels
        self._runner = StepRunner(resources, settings, devices.default)
        self._partitions = PartitionRunner(self._runner, LocalRendezvous, compiles=settings.compiles_plans)
        self._registered: dict[tuple[Master, int], _Registered] = {}
        #: {step: its partitions here}, of running steps that other tasks take part in.
        self._joint: dict[int, Group] = {}
        #: Tasks whose connection was lost: they are met again by the next step that needs them.
        self._unmet: set[str] = set()
        self._is_ending = False
        self.steps_run = 0
        self.steps_failed = 0
        self.steps_running = 0
        self._idle = trio.lowlevel.ParkingLot()
        #: Where steps go on that turn out to need a task; None where every step is given one.
        self.nursery: trio.Nursery | None = None

    # -- graphs -------------------------------------------------------------------------------------

    async def register(
        self, master: Master, message: RegisterGraph, tensors: Sequence[Value], links: Links
    ) -> None:
        """Keep partitions under the master's handle, and meet the tasks that they exchange tensors with.

        Raises InvalidArgumentError for what cannot be read, an error of `links` if a task is not there.
        """
        registered = _Registered(message, self._plan(message, tensors), links)
        registered.needs_no_task = needs_no_task(registered.plan, self._runner)
        self._registered[master, message.handle] = registered
        links.addresses.update(
            {task: address for task, address in message.partners.items() if task not in links.addresses}
        )
        self._unmet.update(message.partners)
        await self._meet(registered)

    async def _meet(self, registered: _Registered) -> None:
        """Have a connection to each partner, in the life that the master has said.

        Returns at once if none was lost, and else only when none has been lost again meanwhile.
        """
        tasks, links = registered.message.tasks, registered.links
        while missing := self._unmet.intersection(registered.message.partners):
            self._unmet -= missing
            try:
                await together(partial(links.meet, task, tasks.get(task, 0)) for task in sorted(missing))
            except BaseException:
                self._unmet |= missing
                raise

    def _plan(self, message: RegisterGraph, tensors: Sequence[Value]) -> PartitionedPlan:
        if not tensors or len(tensors) != len(message.partitions):
            raise InvalidArgumentError(
                f"{len(message.partitions)} partitions come with as many graphs, not with {len(tensors)}"
            )
        context = PassContext(
            feeds=_ports(message.feeds),
            fetches=_ports(message.fetches),
            targets=(),
            fold_constants=False,
            merge_common_subexpressions=False,
            kernels=self._kernels,
        )
        partitions = tuple(
            _partition(entry, tensor, message)
            for entry, tensor in zip(message.partitions, tensors, strict=True)
        )
        graph = partitions[0].graph
        functions = None
        if graph.library is not None:
            library = FunctionLibrary(graph.library, op_registry(), graph.producer)
            compiler = self._runner.compile if self._settings.compiles_plans else None
            functions = FunctionTable(library, self._kernels, context, compiler)
        return PartitionedPlan(Partitioned(partitions, ()), context, self.devices, self._kernels, functions)

    def deregister(self, master: Master, handles: Sequence[int]) -> None:
        """Forget what a master registered under these handles. Steps that run go on."""
        for handle in handles:
            self._registered.pop((master, handle), None)

    def forget(self, task: str, incarnation: int) -> None:
        """Forget all that one master registered: it is gone."""
        master = Master(task, incarnation)
        for key in [key for key in self._registered if key[0] == master]:
            del self._registered[key]

    def task_lost(self, task: str) -> None:
        """A connection to this task is gone."""
        self._unmet.add(task)

    @property
    def graphs(self) -> int:
        """How many requests are registered."""
        return len(self._registered)

    # -- steps --------------------------------------------------------------------------------------

    async def run(self, master: Master, message: RunGraph, feeds: Sequence[Value]) -> tuple[Done, list[Any]]:
        """Run the task's part of a step: how it ended, and what it gives.

        Raises AbortedError for a handle that is not registered (any more): the master registers again.
        Cancelled, it has told the other tasks.
        """
        self.end_steps(message.ended)
        registered = self._find(master, message, feeds)
        await self._meet(registered)
        witness = _Witness(self.exchange.begin_step(message.step, registered.message.tasks))
        metadata = RunMetadata() if message.wants_metadata else None
        joint = self._joint_began(registered, message.step, witness)
        try:
            results, hot = await self._partitions.run(
                registered.plan, registered.spread(feeds), None, metadata, joint
            )
        except OpError as error:
            return self._failed(registered, error, witness), []
        except BaseException:
            witness.abort(CancelledError(f"step {message.step} was cancelled"))
            self.exchange.end_step(message.step)
            raise
        finally:
            self._joint_ended(message.step)
        return self._succeeded(hot, metadata), [results[index] for index in registered.fetches]

    def begin(self, master: Master, message: RunGraph, feeds: Sequence[Value], done: PartDone) -> Running:
        """Begin the task's part of a step, without waiting.

        done   called once, perhaps before this returns, with what `run` returns or raises
        """
        registered = self._registered.get((master, message.handle))
        if (
            registered is None
            or not registered.needs_no_task
            or message.wants_metadata
            or (self._unmet and not self._unmet.isdisjoint(registered.partners))
            or len(feeds) != len(registered.feeds)
        ):
            return self._begin_task(master, message, feeds, done)
        assert self.nursery is not None, "a step was begun before there was a nursery"
        if message.ended:
            self.end_steps(message.ended)
        number = message.step
        try:
            rendezvous = self.exchange.begin_step(number, registered.tasks)
        except OpError as error:
            done(None, [], error)
            return _OVER

        def ended(results: list[Any], hot: Sequence[TieredPlan], error: BaseException | None) -> None:
            self._joint_ended(number)
            if error is None and not hot:
                self.steps_run += 1
                done(WELL, [results[index] for index in registered.fetches] if results else results, None)
                return
            if error is None:
                try:
                    well = self._succeeded(hot, None)
                except Exception as failed:
                    done(None, [], failed)
                    return
                done(well, [results[index] for index in registered.fetches] if results else results, None)
            elif isinstance(error, OpError):
                done(self._failed(registered, error, _Witness(rendezvous)), [], None)
            else:
                rendezvous.abort(CancelledError(f"step {number} was cancelled"))
                done(None, [], error)

        self.steps_running += 1
        steps = registered.steps
        if steps is None:
            steps = registered.steps = TasklessSteps(
                self._runner,
                registered.plan,
                registered.make_group,
                self.nursery,
                compiles=self._settings.compiles_plans,
            )
        spread = registered.spread(feeds) if registered.feeds else feeds
        step, self._joint[number] = steps.make(spread, number, rendezvous, ended)
        step.begin()
        return step

    def _begin_task(
        self, master: Master, message: RunGraph, feeds: Sequence[Value], done: PartDone
    ) -> Running:
        """As `begin`, for a step that is given a task at once."""
        assert self.nursery is not None, "a step was begun before there was a nursery"
        scope = trio.CancelScope()

        async def run() -> None:
            found: tuple[Done | None, list[Any]] = None, []
            error: BaseException | None = CancelledError(f"step {message.step} was cancelled")
            try:
                with scope:
                    found, error = await self.run(master, message, feeds), None
            except Exception as raised:
                error = raised
            finally:
                done(*found, error)

        self.nursery.start_soon(run)
        return scope

    def _find(self, master: Master, message: RunGraph, feeds: Sequence[Value]) -> _Registered:
        registered = self._registered.get((master, message.handle))
        if registered is None:
            raise AbortedError(
                f"{self.task} knows no graph {message.handle} of {master.task}: it may have restarted"
            )
        if len(feeds) != len(registered.feeds):
            raise InvalidArgumentError(
                f"step {message.step} was begun with {len(feeds)} feeds, it has {len(registered.feeds)} here"
            )
        return registered

    def _joint_began(self, registered: _Registered, number: int, rendezvous: Rendezvous) -> JointStep:
        self.steps_running += 1
        group = self._joint[number] = registered.make_group()
        return JointStep(number, rendezvous, group)

    def _joint_ended(self, number: int) -> None:
        del self._joint[number]
        self.steps_running -= 1
        if not self.steps_running and self._idle:
            self._idle.unpark_all()

    def _succeeded(self, hot: Sequence[TieredPlan], metadata: RunMetadata | None) -> Done:
        self.steps_run += 1
        for plan in hot:
            self._runner.compile(plan)
        return WELL if metadata is None else Done(metadata=_table(metadata))

    def _failed(self, registered: _Registered, error: OpError, witness: _Witness) -> Done:
        self.steps_failed += 1
        if self._is_ending or (isinstance(error, CancelledError) and is_cancelled_here()):
            # Its queues may have been closed before the part was cancelled. To whoever still waits for the
            # step, and so has not cancelled it, the task is lost.
            error = UnavailableError(f"{self.task} has ended while it ran its part of the step")
        witness.abort(error)
        if error.device is None:
            error.device = registered.plan.parts[0].device.name
        return Done(error_to_table(error), not witness.has_raised)

    def probe(self, step: int) -> Standing | None:
        """How the part of a step here stands; None while it does anything, or has not begun."""
        traffic, group = self.exchange.traffic(step), self._joint.get(step)
        if traffic is None or (group is not None and not group.is_asleep):
            return None
        first = group.first() if group is not None else None
        return Standing(*traffic, [] if first is None else [first[0], *first[1]])

    def give_up(self, step: int, first: Sequence[int]) -> None:
        """Give up Recvs of a step of which nothing is under way anywhere."""
        group = self._joint.get(step)
        if group is not None and first and group.is_asleep:
            group.give_up((first[0], tuple(first[1:])))

    async def wait_idle(self) -> None:
        """Wait until no step runs here."""
        while self.steps_running:
            await self._idle.park()

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
        """Each device as a map; see `cluster.devices.described`."""
        return [described(offer) for offer in offers_of(self.devices)]

    def reset(self, containers: Sequence[str]) -> None:
        """Clear containers; all of them if none is named."""
        if not containers:
            self.resources.close()
        for container in containers:
            self.resources.clear(container)

    def random_places(self, sequences: Collection[str]) -> dict[str, str]:
        """Where these sequences stand here."""
        return places_of(self.resources, sequences)

    def set_random_places(self, sequences: Collection[str], places: Mapping[str, str]) -> None:
        """Put these sequences at their places; those without one begin anew."""
        set_places(self.resources, sequences, places)

    def statistics(self) -> dict[str, Any]:
        """What the task has done and holds."""
        found = self.exchange.statistics()._asdict()
        return {
            "steps_run": self.steps_run,
            "steps_failed": self.steps_failed,
            "steps_running": self.steps_running,
            "graphs": self.graphs,
            **{f"exchange_{name}": value for name, value in found.items()},
        }

    def close(self) -> None:
        """End the running steps with UnavailableError and free the state."""
        self._is_ending = True
        self._runner.cancel_all()
        self._registered.clear()
        self._partitions.close()
        self.resources.close()


def is_cancelled_here() -> bool:
    """Whether the task that asks is cancelled, as all are of a server that ends."""
    return trio.current_effective_deadline() == -math.inf


def graph_tensor(graph: Graph) -> Any:
    """A graph as a tensor of bytes that can travel beside a message."""
    return np.frombuffer(graph_to_def(graph).SerializeToString(), np.uint8)


def read_graph(tensor: Value, supplied: Collection[OutputPort] = ()) -> Graph:
    """The graph that travelled as `graph_tensor` made it; InvalidArgumentError if it is none.

    supplied   ports that are fed, whose nodes need not be there
    """
    if not isinstance(tensor, np.ndarray) or tensor.dtype != np.uint8 or tensor.ndim != 1:
        raise InvalidArgumentError("a graph travels as a vector of bytes")
    return graph_from_def(parse_graph_def(tensor.tobytes()), op_registry(), supplied=supplied)


def _partition(entry: Mapping[str, Any], tensor: Value, message: RegisterGraph) -> Partition:
    device, feeds = entry.get("device"), entry.get("feeds")
    fetches, targets = entry.get("fetches"), entry.get("targets")
    if not (
        isinstance(device, str)
        and _positions(feeds, len(message.feeds))
        and _positions(fetches, len(message.fetches))
        and isinstance(targets, list)
        and all(isinstance(target, str) for target in targets)
    ):
        raise InvalidArgumentError(f"no partition can be read from {entry!r:.200}")
    graph = read_graph(tensor, _ports(message.feeds))
    return Partition(device, graph, tuple(feeds or ()), tuple(fetches or ()), tuple(targets))


def _positions(values: Any, count: int) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < count for value in values)


def _ports(names: Sequence[str]) -> tuple[OutputPort, ...]:
    return tuple(OutputPort(*parse_tensor_name(name)) for name in names)


def _table(metadata: RunMetadata | None) -> dict[str, Any]:
    """What a step did, as what msgpack carries."""
    if metadata is None:
        return {}
    return {
        "wall_seconds": metadata.wall_seconds,
        "items": metadata.items,
        "heavy_items": metadata.heavy_items,
        "async_items": metadata.async_items,
        "peak_bytes": metadata.peak_bytes,
        "devices": dict(metadata.devices),
        "transfers": {edge: list(counts) for edge, counts in metadata.transfers.items()},
    }


__all__ = ["Master", "Worker", "graph_tensor", "read_graph"]
