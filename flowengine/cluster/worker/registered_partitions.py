"""The partitions of requests that masters have registered with one task, ready to be run.

A request that exchanges tensors with other tasks needs a connection to the right incarnation of each of them.
The tasks meet when the request is registered, and again before the next step if a connection was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from flowengine.cluster.concurrent_calls import together
from flowengine.cluster.graphs import ports, read_partitions
from flowengine.cluster.links import Links
from flowengine.cluster.messages import RegisterGraph
from flowengine.core.arrays import Value
from flowengine.core.work_pieces import Pieces, Piecework
from flowengine.devices.device import DeviceSet
from flowengine.ir.functions import FunctionLibrary
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext
from flowengine.passes.cut.partition import PartitionedGraph
from flowengine.runtime.partitioned_plan import PartitionedPlan, partitioned
from flowengine.runtime.planning.function_calls import StepCaller
from flowengine.runtime.planning.functions import FunctionTable
from flowengine.runtime.planning.planning_jobs import in_turns
from flowengine.runtime.receives import Group, JointGroup
from flowengine.runtime.step import StepRunner
from flowengine.runtime.taskless import TasklessSteps, needs_no_task
from flowengine.runtime.turns import current_turns


class Registrar(NamedTuple):
    """A master that registers graphs: one incarnation of one task."""

    task: str
    incarnation: int


def owner_of(registrar: Registrar, session: int) -> str:
    """Return the container of the state that belongs to one session alone."""
    return f"_{registrar.task}_{registrar.incarnation}_{session}"


class RegisteredGraph:
    """A request's partitions on this task.

    tasks, partners   all tasks that take part, and those that this task exchanges tensors with
    steps             the taskless steps of the request, made on first use
    make_group        for a part that exchanges nothing with others: it finds by itself that it waits in vain
    feeds, fetches    positions, among the request's, of the values that each step receives and returns
    """

    __slots__ = (
        "feeds",
        "fetches",
        "links",
        "make_group",
        "needs_no_task",
        "partners",
        "plan",
        "size",
        "steps",
        "tasks",
    )

    def __init__(
        self, message: RegisterGraph, plan: PartitionedPlan, links: Links, *, needs_no_task: bool
    ) -> None:
        self.links = links
        self.plan = plan
        self.tasks = message.tasks
        self.partners = message.partners.keys()
        self.needs_no_task = needs_no_task
        self.steps: TasklessSteps | None = None
        self.make_group: type[Group] = JointGroup if message.partners else Group
        self.size = len(message.feeds)
        self.feeds = sorted({index for part in plan.parts for index in part.feeds})
        self.fetches = sorted({index for part in plan.parts for index in part.fetches})

    def spread(self, feeds: Sequence[Value]) -> Sequence[Any]:
        """Return the received feeds, at their positions among the request's."""
        if not self.feeds:
            return feeds
        values: list[Any] = [None] * self.size
        for index, value in zip(self.feeds, feeds, strict=True):
            values[index] = value
        return values


class GraphRegistry:
    """The registered partitions of one task: {(registrar, handle): a request's partitions}."""

    def __init__(
        self, devices: DeviceSet, kernels: KernelRegistry, runner: StepRunner, compiles: bool
    ) -> None:
        """`compiles` says whether plans that run often are compiled."""
        self._devices = devices
        self._kernels = kernels
        self._runner = runner
        self._compiles = compiles
        self._graphs: dict[tuple[Registrar, int], RegisteredGraph] = {}
        #: Finds the partitions of a request.
        self.find = self._graphs.get
        #: {master: its sessions that have registered something}
        self._sessions: dict[Registrar, set[int]] = {}
        #: {task whose connection was lost: that loss}. The next step that needs the task meets it again.
        self._unmet: dict[str, object] = {}

    def __len__(self) -> int:
        return len(self._graphs)

    async def register(
        self, registrar: Registrar, message: RegisterGraph, tensors: Sequence[Value], links: Links
    ) -> None:
        """Keep partitions under the master's handle, and meet the tasks that they exchange tensors with.

        Raises InvalidArgumentError for unreadable partitions, an error of `links` for a missing task.
        """
        job = Piecework(self._planning(message, tensors, owner_of(registrar, message.session)))
        await in_turns(job, current_turns())
        plan = job.result()
        graph = RegisteredGraph(message, plan, links, needs_no_task=needs_no_task(plan, self._runner))
        self._graphs[registrar, message.handle] = graph
        self._sessions.setdefault(registrar, set()).add(message.session)
        links.addresses.update(
            {task: address for task, address in message.partners.items() if task not in links.addresses}
        )
        for task in message.partners:
            self.partner_lost(task)
        await self.meet(graph)

    def _planning(
        self, message: RegisterGraph, tensors: Sequence[Value], owner: str
    ) -> Pieces[PartitionedPlan]:
        partitions = read_partitions(message, tensors)
        context = PassContext(
            feeds=ports(message.feeds),
            fetches=ports(message.fetches),
            targets=(),
            fold_constants=False,
            merge_common_subexpressions=False,
            kernels=self._kernels,
        )
        graph = partitions[0].graph
        library = FunctionLibrary(graph.library, op_registry(), graph.producer)
        compiler = self._runner.compile if self._compiles else None
        # Also without functions, because kernels learn from the library which session they belong to.
        functions = FunctionTable(library, self._kernels, context, compiler)
        functions.caller = StepCaller(self._runner, functions, owner)
        cut = PartitionedGraph(partitions, ())
        return (yield from partitioned(cut, context, self._devices, self._kernels, functions))

    def drop(self, registrar: Registrar, handles: Sequence[int]) -> None:
        """Forget the graphs that a master registered under these handles. Running steps go on."""
        for handle in handles:
            self._graphs.pop((registrar, handle), None)

    def drop_all(self, registrar: Registrar) -> set[int]:
        """Forget all graphs of one lost master. Returns its sessions that had graphs here."""
        for key in [key for key in self._graphs if key[0] == registrar]:
            del self._graphs[key]
        return self._sessions.pop(registrar, set())

    def clear(self) -> None:
        """Forget everything."""
        self._graphs.clear()

    # Partners.

    def partner_lost(self, task: str) -> None:
        """Record that the connection to a task is lost."""
        self._unmet[task] = object()

    def has_met(self, graph: RegisteredGraph) -> bool:
        """Return whether all connections to partners have lasted since they met."""
        return not self._unmet or self._unmet.keys().isdisjoint(graph.partners)

    async def meet(self, graph: RegisteredGraph) -> None:
        """Have a connection to the expected incarnation of each partner.

        Returns at once if none was lost. Otherwise returns when all are there at the same time.
        """
        tasks, links = graph.tasks, graph.links
        while missing := self._unmet.keys() & graph.partners:
            losses = {task: self._unmet[task] for task in missing}
            await together(partial(links.meet, task, tasks.get(task, 0)) for task in sorted(missing))
            # Only now: until then no other step may regard them as met.
            for task, loss in losses.items():
                if self._unmet.get(task) is loss:
                    del self._unmet[task]


__all__ = ["GraphRegistry", "RegisteredGraph", "Registrar"]
