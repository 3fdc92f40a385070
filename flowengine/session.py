"""Session: runs a graph in this process, inside a trio program.

    async with fe.Session(graph) as session:
        loss, _ = await session.run(["loss:0", "train"], {"x:0": batch})

A session makes a plan for each combination of feeds, fetches and targets and keeps it. Steps may run at
the same time; variables, queues and tables live in the session's resource manager between them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import Any, Final

from flowengine.core.collector import collection_paused
from flowengine.core.config import Config, RunMetadata, RunOptions
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.targets import opener_for
from flowengine.devices.device import DeviceRegistry, DeviceSet
from flowengine.devices.load import DEVICES
from flowengine.graphs.graph import Graph as BuildGraph
from flowengine.ir.functions import FunctionLibrary
from flowengine.ir.graph import Graph
from flowengine.kernels.common.generators import places_of, random_sequences, set_places
from flowengine.kernels.load import registry as kernel_registry
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext
from flowengine.passes.pipeline import cut, prepare
from flowengine.passes.place.costs import CostModel
from flowengine.resources.container import ResourceManager
from flowengine.runtime.explaining import explained
from flowengine.runtime.fetches import Assemble
from flowengine.runtime.functions import FunctionTable
from flowengine.runtime.hardware import kernels_on
from flowengine.runtime.measuring import Measure, Measuring
from flowengine.runtime.partitions import PartitionedPlan, PartitionRunner
from flowengine.runtime.placing import Placer, SessionPlacer
from flowengine.runtime.requests import Requests, request_key
from flowengine.runtime.step import StepRunner
from flowengine.runtime.tiers import TieredPlan
from flowengine.runtime.values import FeedSpec, FetchSpec
from flowengine.transport.tensors.rendezvous import LocalRendezvous

#: Plans kept for one version of the graph; a service with more combinations than this makes some anew.
PLANS_MAX: Final = 512


class _PreparedPlan:
    """A plan with the two doors around it."""

    __slots__ = ("assemble", "feeds", "fetches", "plan")

    def __init__(
        self,
        plan: TieredPlan | PartitionedPlan | Measuring[TieredPlan | PartitionedPlan],
        feeds: list[FeedSpec],
        fetches: list[FetchSpec],
        assemble: Assemble,
    ) -> None:
        self.plan = plan
        self.feeds = feeds
        self.fetches = fetches
        self.assemble = assemble


class Session:
    """Steps of one graph in this process.

    graph       what it runs; it may grow between steps, and the session notices
    target      "" for this process; "scheme://address" where that scheme is registered
    config      settings; see `Config`
    resources   a resource manager shared with other sessions, else one of its own
    kernels     what computes, instead of this package's kernels
    devices     the device types that it may use, instead of this package's
    placer      what says on which device each node runs, instead of the session's own choice

    Use it with `async with`, or call `close`. It belongs to the trio run that first runs a step.
    """

    def __init__(
        self,
        graph: Graph | None = None,
        *,
        target: str = "",
        config: Config | None = None,
        resources: ResourceManager | None = None,
        kernels: KernelRegistry | None = None,
        devices: DeviceRegistry | None = None,
        placer: Placer | None = None,
    ) -> None:
        self.graph: Graph = graph if graph is not None else BuildGraph()
        self.config = config if config is not None else Config()
        self._settings = self.config.resolved()
        #: A session opened elsewhere, which every call is passed to.
        self._remote: Any = opener_for(target)(target, self.graph, self.config) if target else None
        self._owns_resources = resources is None
        self.resources = resources if resources is not None else ResourceManager()
        #: Where nodes may run.
        self.devices: DeviceSet = (devices if devices is not None else DEVICES).make(
            self._settings.device_count, self._settings.device_memory_limits
        )
        self._kernels = kernels if kernels is not None else kernel_registry(self._settings.kernel_provider)
        self._runner = StepRunner(self.resources, self._settings, self.devices.default)
        self._partitions = PartitionRunner(
            self._runner, LocalRendezvous, compiles=self._settings.compiles_plans
        )
        self._compiles = self._settings.compiles_plans
        self._placer: Placer = (
            placer
            if placer is not None
            else SessionPlacer(self.devices, self._kernels, self._settings, lambda: self.graph)
        )
        self._plans: dict[Any, _PreparedPlan] = {}
        self._version = -1
        self._requests = Requests(self.graph)
        self._functions: FunctionTable | None = None
        self._closed = False

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- running ------------------------------------------------------------------------------------

    async def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        targets: Sequence[Any] = (),
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """Run one step and return the values of `fetches` in its structure.

        fetches     "node:slot" for a value, "node" to run a node (yields None), a Tensor or Operation,
                    or lists, tuples, named tuples and dicts of them
        feed_dict   {"node:slot" or Tensor: value} instead of what the graph would compute there
        targets     nodes to run for their effect

        Values are NumPy scalars or arrays, `bytes` or object arrays of `bytes` for strings; the caller
        owns them. Raises an error of `flowengine.errors`; trio.Cancelled if the caller is cancelled, which
        leaves the session usable and the effects of nodes that had completed in place.
        """
        if self._remote is not None:
            return await self._remote.run(
                fetches, feed_dict, targets=targets, options=options, run_metadata=run_metadata
            )
        feed_dict = feed_dict or {}
        key = request_key(fetches, feed_dict, targets)
        prepared = self._plans.get(key) if key is not None else None
        if prepared is None or self._version != self.graph.version:
            prepared = self._prepare(fetches, list(feed_dict), targets)
            if key is not None:
                self._keep(key, prepared)
        return await self._step(prepared, list(feed_dict.values()), options, run_metadata)

    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), targets: Sequence[Any] = ()
    ) -> Callable[..., Awaitable[Any]]:
        """A coroutine function that takes one value a feed, in order, and returns the fetches.

        It does what `run` does, with everything looked up beforehand; a graph that has grown since does
        not change what it runs.
        """
        if self._remote is not None:
            remote: Callable[..., Awaitable[Any]] = self._remote.make_callable(fetches, feeds, targets)
            return remote
        prepared = self._prepare(fetches, list(feeds), targets)
        count = len(feeds)

        async def call(*values: Any) -> Any:
            if len(values) != count:
                raise InvalidArgumentError(f"this callable takes {count} values, it was given {len(values)}")
            return await self._step(prepared, values, None, None)

        return call

    async def _step(
        self,
        prepared: _PreparedPlan,
        values: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
    ) -> Any:
        if self._closed:
            raise FailedPreconditionError("this session is closed")
        self.resources.bind_to_current_run()
        feeds = [spec.convert(value) for spec, value in zip(prepared.feeds, values, strict=True)]
        timeout = None if options is None else options.timeout_seconds
        tiers = prepared.plan
        if isinstance(tiers, TieredPlan):
            if self._compiles:
                plan = tiers.choose(feeds)
                started = perf_counter()
                results = await self._runner.run(plan, feeds, timeout, run_metadata)
                if plan is tiers.interpreted and tiers.ran(feeds, perf_counter() - started):
                    self._runner.compile(tiers)
            else:
                results = await self._runner.run(tiers.interpreted, feeds, timeout, run_metadata)
        elif isinstance(tiers, PartitionedPlan):
            results, hot = await self._partitions.run(tiers, feeds, timeout, run_metadata)
            for part in hot:
                self._runner.compile(part)
        else:
            return await self._measured_step(prepared, tiers, values, options, run_metadata)
        del feeds
        owned = [spec.convert(results, index) for index, spec in enumerate(prepared.fetches)]
        return prepared.assemble(owned)

    async def _measured_step(
        self,
        prepared: _PreparedPlan,
        measuring: Measuring[TieredPlan | PartitionedPlan],
        values: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
    ) -> Any:
        """A step on the way to a placement from measured costs, and what is learnt from it."""
        plan = measuring.begin()
        succeeded = False
        started = perf_counter()
        try:
            step = _PreparedPlan(plan, prepared.feeds, prepared.fetches, prepared.assemble)
            result = await self._step(step, values, options, run_metadata)
            succeeded = True
            return result
        finally:
            measuring.end(plan, succeeded=succeeded, seconds=perf_counter() - started)
            if measuring.done:
                prepared.plan = measuring.plan

    # -- planning -----------------------------------------------------------------------------------

    def _keep(self, key: Any, prepared: _PreparedPlan) -> None:
        if len(self._plans) >= PLANS_MAX:
            del self._plans[next(iter(self._plans))]
        self._plans[key] = prepared

    def _prepare(self, fetches: Any, feeds: Sequence[Any], targets: Sequence[Any]) -> _PreparedPlan:
        graph = self.graph
        if self._version != graph.version:
            self._plans.clear()
            self._requests = Requests(graph)
            self._functions = None
            self._version = graph.version
        request = self._requests.read(fetches, feeds, targets)
        context = self._requests.context(request, self._settings, self._kernels)
        with collection_paused():
            plan = self._plan(prepare(graph, context), context)
        return _PreparedPlan(plan, request.feeds, request.fetches, request.wanted.assemble)

    def _plan(
        self, graph: Graph, context: PassContext
    ) -> TieredPlan | PartitionedPlan | Measuring[TieredPlan | PartitionedPlan]:
        """The plan of a graph that passes have gone over, placed if there are devices to choose from."""
        if len(self.devices) == 1 and not self._settings.places:
            return self._plan_on(graph, context, {})
        placer = self._placer
        if not isinstance(placer, SessionPlacer):
            return self._plan_on(graph, context, placer(graph, context))
        placement = placer.place(graph, context)
        if len(self.devices) == 1 or not (self._settings.measure_costs and placement.is_free):
            return self._plan_on(graph, context, placement.device_of)
        return Measuring(graph, context, placer, placement.device_of, partial(self._plan_on, graph, context))

    def _plan_on(
        self,
        graph: Graph,
        context: PassContext,
        placement: Mapping[str, str],
        measure: Measure | None = None,
    ) -> TieredPlan | PartitionedPlan:
        """A plan of a placed graph: cut by device where it is on several."""
        functions = self._function_table()
        default = self.devices.default.name
        if any(device != default for device in placement.values()):
            parts = cut(
                graph,
                context,
                placement,
                self.devices.incarnations,
                schedules_receives=self._settings.schedule_receives,
                compressed_scopes=self._settings.compress_transfers,
            )
            return PartitionedPlan(parts, context, self.devices, self._kernels, functions, measure)
        kernels = kernels_on(self._kernels, self.devices.default)
        if measure is not None:
            kernels = measure(kernels, default)
        return TieredPlan(graph, context, kernels, functions)

    def _function_table(self) -> FunctionTable | None:
        """The plans of the graph's functions, kept while the graph does not change."""
        if self.graph.library is None:
            return None
        if self._functions is None:
            registry = self.graph.registry if isinstance(self.graph, BuildGraph) else op_registry()
            library = FunctionLibrary(self.graph.library, registry, self.graph.producer)
            context = self._requests.context(None, self._settings, self._kernels)
            compiler = self._runner.compile if self._compiles else None
            self._functions = FunctionTable(library, self._kernels, context, compiler)
        return self._functions

    # -- the rest -----------------------------------------------------------------------------------

    @property
    def costs(self) -> CostModel:
        """What was measured of the graph's nodes; empty where the session does not place them itself."""
        placer = self._placer
        return placer.placer.costs if isinstance(placer, SessionPlacer) else CostModel()

    @property
    def is_local(self) -> bool:
        """Whether steps run in this process, on `resources`, rather than at a target."""
        return self._remote is None

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called: no step runs any more, and none can begin."""
        return self._closed

    async def reset(self, containers: Sequence[str]) -> None:
        """Clear containers ("" is the default one) here, or at a target on every task, for all who use them.

        Raises UnavailableError naming a task that is not there.
        """
        if self._remote is not None:
            await self._remote.reset(containers)
            return
        for container in containers:
            self.resources.clear(container)

    async def random_places(self) -> dict[str, str]:
        """Where the graph's random nodes stand in their sequences, to be kept with a checkpoint."""
        sequences = random_sequences(self.graph)
        if not sequences:
            return {}
        if self._remote is not None:
            return dict(await self._remote.random_places(sequences))
        return places_of(self.resources, sequences)

    async def set_random_places(self, places: Mapping[str, str]) -> None:
        """Go on from there; random nodes that had not drawn then begin anew."""
        sequences = random_sequences(self.graph)
        if not sequences:
            return
        if self._remote is not None:
            await self._remote.set_random_places(sequences, places)
        else:
            set_places(self.resources, sequences, places)

    def at_step_boundary(self, counts: Callable[[Graph], bool]) -> bool:
        """Whether no step is under way whose nodes, as a graph, count."""
        plans = [executor.plan for executor in self._runner.running]
        return not any(counts(plan.graph if plan.unfused is None else plan.unfused) for plan in plans)

    @contextmanager
    def when_steps_end(self, call: Callable[[], None]) -> Iterator[None]:
        """Have a function called whenever a step has ended, before whoever ran it goes on."""
        self._runner.ended.append(call)
        try:
            yield
        finally:
            self._runner.ended.remove(call)

    def extend(self, graph: Graph) -> None:
        """Add the nodes of another graph; InvalidArgumentError, with nothing added, if a name is taken."""
        taken = [node.name for node in graph if node.name in self.graph]
        if taken:
            raise InvalidArgumentError(
                f"the session's graph has these nodes already: {', '.join(taken[:10])}"
            )
        for node in graph:
            self.graph.add(node)

    def explain(
        self,
        fetches: Any,
        feeds: Sequence[Any] = (),
        *,
        targets: Sequence[Any] = (),
        dot: bool = False,
        source: bool = False,
        placement: bool = False,
        form: bool = False,
    ) -> str:
        """What a step would run: the nodes left after the passes, and what each pass removed.

        `dot=True` gives the graph in DOT instead, `source=True` the Python that a hot plan is turned into,
        `placement=True` the device of each node and why it is there, `form=True` what steps run as of now,
        by what earlier ones took: the blocks and their nodes, and where each of them runs.
        """
        if placement:
            return self._explain_placement(fetches, feeds, targets)
        key = request_key(fetches, dict.fromkeys(feeds), targets) if form else None
        kept = self._plans.get(key) if self._version == self.graph.version else None
        tiers = (kept or self._prepare(fetches, list(feeds), targets)).plan
        plan = tiers.plan if isinstance(tiers, Measuring) else tiers
        return explained(plan, self.graph, dot=dot, source=source, form=form)

    def _explain_placement(self, fetches: Any, feeds: Sequence[Any], targets: Sequence[Any]) -> str:
        request = Requests(self.graph).read(fetches, feeds, targets)
        context = self._requests.context(request, self._settings, self._kernels)
        graph = prepare(self.graph, context)
        if isinstance(self._placer, SessionPlacer):
            return self._placer.explain(graph, context)
        placed = self._placer(graph, context)
        return "\n".join(f"{node.name} ({node.op}): {placed[node.name]}" for node in graph)

    async def close(self) -> None:
        """End the running steps with CancelledError and free the session's own resources.

        Closing twice does nothing. Nothing waits: the steps' callers see the error at their next turn.
        """
        if self._closed:
            return
        self._closed = True
        if self._remote is not None:
            await self._remote.close()
        self._runner.cancel_all()
        self._plans.clear()
        self._partitions.close()
        if self._owns_resources:
            self.resources.close()


__all__ = ["Session"]
