"""The plans of requests to a session's graph, made in pieces: see `jobs` for who does them.

What several ask for at the same time is made once, by all of them. What is left by whoever is cancelled, or
has run out of time, waits for the next who asks for the same.
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
from flowengine.runtime.partitions import PartitionedPlan, partitioned
from flowengine.runtime.planning.fetches import leaf_values
from flowengine.runtime.planning.functions import FunctionTable
from flowengine.runtime.planning.hardware import kernels_on
from flowengine.runtime.planning.measuring import Measure, PlacementMeasurement
from flowengine.runtime.planning.placing import Placer, SessionPlacer
from flowengine.runtime.planning.requests import PlanKey, Request, Requests
from flowengine.runtime.planning.tiers import TieredPlan, tiered
from flowengine.runtime.planning.values import FeedSpec, FetchSpec

#: What a step runs, on one device or cut by device.
AnyPlan: TypeAlias = TieredPlan | PartitionedPlan

#: Plans that were begun and left: so many are kept for whoever asks for the same again.
_LEFT_MAX: Final = 16


class PreparedPlan:
    """A plan with the two doors around it, for all requests for the same tensors.

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
        """Another plan behind the same doors."""
        return PreparedPlan(plan, self.feeds, self.fetches)


class PlannedRequest:
    """A plan, and which of its values each leaf of the fetches has. It knows nothing of their structure.

    slots   the index of each leaf's value; None where each has a value of its own, in order
    """

    __slots__ = ("prepared", "slots")

    def __init__(self, prepared: PreparedPlan, slots: Sequence[int]) -> None:
        self.prepared = prepared
        self.slots = None if list(slots) == list(range(len(prepared.fetches))) else tuple(slots)

    def values(self, found: list[Any]) -> list[Any]:
        """The value of each leaf, of what `hand_out` gave for the plan's tensors."""
        return found if self.slots is None else leaf_values(found, self.slots)


class RequestPlanner:
    """Makes the plans of requests to one version of a session's graph.

    requests   reads them
    jobs       {what a plan is filed under: the work on it}, of those that are being made
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
        calling   makes what calls functions for resources
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
        """The work on a request: checking it. It raises what is wrong with the request."""

        def pieces() -> Pieces[Request]:
            request = self.requests.read(leaves, feeds, targets)
            yield
            return request

        return Piecework(pieces())

    def job(self, request: Request) -> Piecework[PreparedPlan]:
        """The work on a plan: what others have begun, if they have."""
        key = request.plan_key
        job = self.jobs.get(key)
        if job is None or job.has_failed:
            job = Piecework(self.preparing(request))
            self.jobs.pop(key, None)
            if len(self.jobs) >= _LEFT_MAX:
                # Those who still work on it bring it to its end all the same.
                del self.jobs[next(iter(self.jobs))]
            self.jobs[key] = job
        return job

    def close(self) -> None:
        """Give up what is being made."""
        for job in self.jobs.values():
            job.give_up()
        self.jobs.clear()

    def preparing(self, request: Request) -> Pieces[PreparedPlan]:
        """A plan, in pieces. Raises what is wrong with what the request reaches of the graph.

        Of a graph that grows meanwhile, what it had when the first piece was done is planned.
        """
        context = self.requests.context(request, self._settings, self._kernels)
        graph = yield from preparing(self._graph, context)
        plan = yield from self._planning(graph, context)
        return PreparedPlan(plan, request.feeds, request.fetches)

    def _planning(
        self, graph: NodeGraph, context: PassContext
    ) -> Pieces[AnyPlan | PlacementMeasurement[AnyPlan]]:
        """The plan of a graph that passes have gone over, placed if there are devices to choose from."""
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
        """A plan of a placed graph: cut by device where it is on several."""
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
        """The plans of the graph's functions; where it has none, of those that a text brings."""
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
