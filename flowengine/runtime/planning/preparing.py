"""The plans of requests to a session's graph, made in pieces: see `planning_jobs` for the tasks that work.

Tasks that need the same plan at the same time make it once, together. A plan left by a cancelled task, or by
one that has run out of time, waits for the next task that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias
from weakref import WeakSet

from flowengine.core.config import Settings
from flowengine.core.dtypes import string
from flowengine.core.work_pieces import Pieces, Piecework, at_once
from flowengine.devices.device import DeviceSet
from flowengine.graphs.graph import Graph as BuildGraph
from flowengine.ir.functions import FunctionLibrary
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext
from flowengine.passes.cut.shared_names import SharedNames
from flowengine.passes.pipeline import cut, preparing
from flowengine.resources.function_calls import FunctionCaller
from flowengine.runtime.partitioned_plan import PartitionedPlan, partitioned
from flowengine.runtime.planning.fetches import leaf_values
from flowengine.runtime.planning.functions import FunctionTable
from flowengine.runtime.planning.hardware import kernels_on
from flowengine.runtime.planning.measuring import Measure, PlacementMeasurement
from flowengine.runtime.planning.placing import Placer, SessionPlacer
from flowengine.runtime.planning.requests import PlanKey, Request, Requests
from flowengine.runtime.planning.tiers import TieredPlan, tiered
from flowengine.runtime.planning.values import FeedSpec, FetchSpec

#: A step's plan, on one device or cut by device.
AnyPlan: TypeAlias = TieredPlan | PartitionedPlan

#: The number of unfinished plans that are kept for the next request of the same.
_LEFT_MAX: Final = 16


class PreparedPlan:
    """A plan with the conversions of its feeds and fetches, for all requests for the same tensors.

    takes_text   whether strings are fed, of which there may be many
    """

    __slots__ = ("__weakref__", "feeds", "fetches", "plan", "takes_text")

    def __init__(
        self,
        plan: AnyPlan | PlacementMeasurement[AnyPlan],
        feeds: list[FeedSpec],
        fetches: list[FetchSpec],
    ) -> None:
        self.plan = plan
        self.feeds = feeds
        self.fetches = fetches
        self.takes_text = any(spec.dtype is string for spec in feeds)

    def with_plan(self, plan: AnyPlan) -> PreparedPlan:
        """Return another plan with the same conversions."""
        return PreparedPlan(plan, self.feeds, self.fetches)


class PlannedRequest:
    """A plan, and the index of each fetched leaf's value. It knows nothing of the structure of fetches.

    slots   the index of each leaf's value; None if each has a value of its own, in order
    """

    __slots__ = ("prepared", "slots")

    def __init__(self, prepared: PreparedPlan, slots: Sequence[int]) -> None:
        self.prepared = prepared
        self.slots = None if list(slots) == list(range(len(prepared.fetches))) else tuple(slots)

    def values(self, found: list[Any]) -> list[Any]:
        """Return the value of each leaf, from the result of `hand_out` for the plan's tensors."""
        return found if self.slots is None else leaf_values(found, self.slots)


class RequestPlanner:
    """Makes the plans of requests to one version of a session's graph.

    requests   reads them
    jobs       {key of a plan: the work on it}, of those that are being made
    """

    def __init__(
        self,
        graph: NodeGraph,
        settings: Settings,
        kernels: KernelRegistry,
        devices: DeviceSet,
        placer: Placer,
        compiler: Callable[[TieredPlan], None] | None,
        calling: Callable[[FunctionTable], FunctionCaller] | None = None,
        names: SharedNames | None = None,
        tables: WeakSet[FunctionTable] | None = None,
    ) -> None:
        """`compiler` compiles a function's plan that has become hot, now or soon.

        names     of resources that earlier plans found
        calling   makes the caller of functions for resources
        tables    of functions, to which those of this planner are added
        """
        self._calling = calling
        self._tables: WeakSet[FunctionTable] = WeakSet() if tables is None else tables
        self._names = SharedNames() if names is None else names
        self.requests = Requests(graph)
        self.jobs: dict[PlanKey, Piecework[PreparedPlan]] = {}
        self._graph = graph
        self._settings = settings
        self._kernels = kernels
        self._devices = devices
        self._placer = placer
        self._compiler = compiler
        #: The plans of the graph's functions, once one is called.
        self._functions: FunctionTable | None = None

    def reading(
        self, leaves: Iterable[Any], feeds: Sequence[Any], targets: Sequence[Any]
    ) -> Piecework[Request]:
        """Check a request. Raises the faults of the request."""

        def pieces() -> Pieces[Request]:
            request = self.requests.read(leaves, feeds, targets)
            yield
            return request

        return Piecework(pieces())

    def job(self, request: Request) -> Piecework[PreparedPlan]:
        """Return the work on a plan, perhaps one that others have begun."""
        key = request.plan_key
        job = self.jobs.get(key)
        if job is None or job.has_failed:
            job = Piecework(self.preparing(request))
            self.jobs.pop(key, None)
            if len(self.jobs) >= _LEFT_MAX:
                # The tasks that still work on it finish it all the same.
                del self.jobs[next(iter(self.jobs))]
            self.jobs[key] = job
        return job

    def close(self) -> None:
        """Abandon unfinished plans."""
        for job in self.jobs.values():
            job.give_up()
        self.jobs.clear()

    def preparing(self, request: Request) -> Pieces[PreparedPlan]:
        """Make a plan, in pieces. Raises the faults of the nodes that the request reaches.

        If the graph grows meanwhile, its nodes at the end of the first piece are planned.
        """
        context = self.requests.context(request, self._settings, self._kernels)
        graph = yield from preparing(self._graph, context)
        plan = yield from self._planning(graph, context)
        return PreparedPlan(plan, request.feeds, request.fetches)

    def _planning(
        self, graph: NodeGraph, context: PassContext
    ) -> Pieces[AnyPlan | PlacementMeasurement[AnyPlan]]:
        """Return the plan of a graph after its passes, placed if there are several devices."""
        if len(self._devices) == 1 and not self._settings.places:
            return (yield from self._planning_on(graph, context, {}))
        placer = self._placer
        if not isinstance(placer, SessionPlacer):
            return (yield from self._planning_on(graph, context, placer(graph, context)))
        placement = placer.place(graph, context)
        yield
        plan = yield from self._planning_on(graph, context, placement.device_of)
        if len(self._devices) == 1 or not (self._settings.measure_costs and placement.is_free):
            return plan
        build = partial(self._plan_on, graph, context)
        return PlacementMeasurement(graph, context, placer, placement.device_of, plan, build)

    def _plan_on(
        self, graph: NodeGraph, context: PassContext, placement: Mapping[str, str], measure: Measure | None
    ) -> AnyPlan:
        return at_once(self._planning_on(graph, context, placement, measure))

    def _planning_on(
        self,
        graph: NodeGraph,
        context: PassContext,
        placement: Mapping[str, str],
        measure: Measure | None = None,
    ) -> Pieces[AnyPlan]:
        """Return a plan of a placed graph: cut by device if it is on several."""
        functions = self.functions()
        default = self._devices.default.name
        self._names.check(graph, placement, self._devices)
        if any(device != default for device in placement.values()):
            parts = cut(
                graph,
                context,
                placement,
                self._devices.incarnations,
                schedules_receives=self._settings.schedule_receives,
                compressed_scopes=self._settings.compress_transfers,
            )
            yield
            return (
                yield from partitioned(
                    *(parts, context, self._devices, self._kernels, functions, measure),
                    debugs_devices=self._settings.debug_devices,
                )
            )
        kernels = kernels_on(self._kernels, self._devices.default)
        if measure is not None:
            kernels = measure(kernels, default)
        return (yield from tiered(graph, context, kernels, functions))

    def functions(self) -> FunctionTable:
        """Return the plans of the graph's functions; without any, of those that a text brings."""
        graph, table = self._graph, self._functions
        if table is None:
            registry = graph.registry if isinstance(graph, BuildGraph) else op_registry()
            library = FunctionLibrary(graph.library, registry, graph.producer)
            context = self.requests.context(None, self._settings, self._kernels)
            table = FunctionTable(library, self._kernels, context, self._compiler, self._tables)
            table.caller = None if self._calling is None else self._calling(table)
            if graph.library is not None:
                self._functions = table
        return table


__all__ = ["AnyPlan", "PlannedRequest", "PreparedPlan", "RequestPlanner"]
