"""A request's plan at the master: the part of each task, and the message that each task gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowengine.cluster.graphs import graph_tensor
from flowengine.cluster.messages import RegisterGraph
from flowengine.ir.graph import NodeGraph
from flowengine.ir.traits import Orders
from flowengine.passes.context import PassContext
from flowengine.passes.cut.partition import Partition, PartitionedGraph
from flowengine.passes.simplify.prune import prune
from flowengine.transport.tensors.exchange import task_of_device


def without_gathering(graph: NodeGraph, context: PassContext) -> tuple[NodeGraph, PassContext]:
    """Return the request without NoOp targets that only wait for other nodes: those nodes become the targets.

        targets {N}, N = NoOp(^a, ^b)   ->   targets {a, b}

    A step is over when every task says so, so tasks need not tell each other that the inputs of a NoOp have
    run. A NoOp that other nodes wait for stays, for them.
    """
    names: dict[str, None] = {}
    left = list(reversed(context.targets))
    seen: set[str] = set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        node = graph[name]
        if node.control_inputs and node.has(Orders):
            left.extend(reversed(node.control_inputs))
        else:
            names[name] = None
    targets = tuple(names)
    if targets == context.targets:
        return graph, context
    context = replace(context, targets=targets)
    return prune(graph, context), context


class TaskPart:
    """The part of a request that one task runs.

    incarnation      the incarnation of the task that it is registered with
    feeds, fetches   positions among the request's
    devices          those of the task that take part
    """

    __slots__ = ("devices", "feeds", "fetches", "incarnation", "partitions", "task")

    def __init__(self, task: str, incarnation: int, partitions: Sequence[Partition]) -> None:
        self.task = task
        self.incarnation = incarnation
        self.partitions = tuple(partitions)
        self.devices = tuple(each.device for each in partitions)
        self.feeds = sorted({index for each in partitions for index in each.feeds})
        self.fetches = sorted({index for each in partitions for index in each.fetches})


class MasterPlan:
    """A partitioned request, task by task, with the handle by which the workers know it."""

    def __init__(
        self,
        handle: int,
        cut: PartitionedGraph,
        context: PassContext,
        incarnations: Mapping[str, int],
        here: str,
        session: int,
    ) -> None:
        """`incarnations` is {task: incarnation} of the whole cluster, `here` the master's own task."""
        self.handle = handle
        self.session = session
        #: Whether a task may have forgotten the plan, so that it has to be made anew.
        self.is_void = False
        self.fetches = len(context.fetches)
        self._context = context
        by_task: dict[str, list[Partition]] = {}
        for partition in cut.partitions:
            by_task.setdefault(task_of_device(partition.device), []).append(partition)
        #: The master's own task comes last, so that the others run meanwhile.
        self.parts = [
            TaskPart(task, incarnations[task], by_task[task]) for task in sorted(by_task, key=here.__eq__)
        ]
        self.tasks = {part.task: part.incarnation for part in self.parts}
        #: Whether tasks wait for each other's tensors.
        self.is_joint = False
        self._partners: dict[str, set[str]] = {task: set() for task in by_task}
        for transfer in cut.transfers:
            source, target = task_of_device(transfer.source), task_of_device(transfer.target)
            if source != target:
                self._partners[source].add(target)
                self._partners[target].add(source)
                self.is_joint = True

    def registration(self, part: TaskPart, addresses: Mapping[str, str]) -> tuple[RegisterGraph, list[Any]]:
        """Return the message for one task, and the graphs beside it."""
        message = RegisterGraph(
            handle=self.handle,
            session=self.session,
            partitions=[
                {
                    "device": each.device,
                    "feeds": list(each.feeds),
                    "fetches": list(each.fetches),
                    "targets": list(each.targets),
                }
                for each in part.partitions
            ],
            feeds=[str(port) for port in self._context.feeds],
            fetches=[str(port) for port in self._context.fetches],
            tasks=self.tasks,
            partners={task: addresses[task] for task in sorted(self._partners[part.task])},
        )
        return message, [graph_tensor(each.graph) for each in part.partitions]


__all__ = ["MasterPlan", "TaskPart", "without_gathering"]
