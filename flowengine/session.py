"""Session: runs a graph in this process, inside a trio program.

    async with fe.Session(graph) as session:
        loss, _ = await session.run(["loss:0", "train"], {"x:0": batch})

A session makes a plan for each combination of feeds, fetches and targets and keeps it. Steps may run at
the same time; variables, queues and tables live in the session's resource manager between them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from typing import Any, Final

import trio

from flowengine.build.graph import Graph as BuildGraph
from flowengine.core.config import Config, RunMetadata, RunOptions
from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
)
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.core.targets import opener_for
from flowengine.devices.device import DeviceRegistry, DeviceSet
from flowengine.devices.load import DEVICES
from flowengine.ir.frames import ENTER_OPS, FramePath, assign_frames, describe_frame, output_frame
from flowengine.ir.functions import FunctionLibrary
from flowengine.ir.graph import Graph, OutputPort
from flowengine.kernels.load import registry as kernel_registry
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes import explain
from flowengine.passes.context import PassContext
from flowengine.passes.partition import partition
from flowengine.passes.pipeline import prepare
from flowengine.resources.container import ResourceManager
from flowengine.runtime.fetches import Assemble, FetchPlan, port_of
from flowengine.runtime.functions import FunctionTable
from flowengine.runtime.partitions import PartitionedPlan, PartitionRunner
from flowengine.runtime.placing import Placer, SessionPlacer
from flowengine.runtime.plan import kernel_summary
from flowengine.runtime.step import StepRunner
from flowengine.runtime.tiers import INLINE_NODES, TieredPlan
from flowengine.runtime.values import FeedSpec, FetchSpec
from flowengine.transport.rendezvous import LocalRendezvous

#: Plans kept for one version of the graph; a service with more combinations than this makes some anew.
PLANS_MAX: Final = 512
#: Before this producer version a Placeholder of unknown shape was written with an empty one.
_SHAPED_PLACEHOLDERS: Final = 24
_PLACEHOLDERS: Final = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})


class _Prepared:
    """A plan with the two doors around it."""

    __slots__ = ("assemble", "feeds", "fetches", "plan")

    def __init__(
        self,
        plan: TieredPlan | PartitionedPlan,
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
        self._placer: Placer = placer if placer is not None else SessionPlacer(self.devices)
        self._plans: dict[Any, _Prepared] = {}
        self._version = -1
        self._frames: dict[str, FramePath] | None = None
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
        key = _key_of(fetches, feed_dict, targets)
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
        prepared: _Prepared,
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
        if isinstance(tiers, PartitionedPlan):
            results, hot = await self._partitions.run(tiers, feeds, timeout, run_metadata)
            for part in hot:
                self._compile(part)
        elif self._compiles:
            plan = tiers.choose(feeds)
            started = perf_counter()
            results = await self._runner.run(plan, feeds, timeout, run_metadata)
            if plan is tiers.interpreted and tiers.ran(feeds, perf_counter() - started):
                self._compile(tiers)
        else:
            results = await self._runner.run(tiers.interpreted, feeds, timeout, run_metadata)
        del feeds
        owned = [spec.convert(results, index) for index, spec in enumerate(prepared.fetches)]
        return prepared.assemble(owned)

    def _compile(self, plan: TieredPlan) -> None:
        """Compile a hot plan: a small one at once, a large one beside the event loop."""
        if plan.nodes <= INLINE_NODES or not self._settings.worker_threads:
            plan.compile()
            return
        plan.begin_compiling()

        async def compile_beside() -> None:
            await trio.to_thread.run_sync(plan.compile, abandon_on_cancel=True)

        trio.lowlevel.spawn_system_task(compile_beside, name="flowengine compile")

    # -- planning -----------------------------------------------------------------------------------

    def _keep(self, key: Any, prepared: _Prepared) -> None:
        if len(self._plans) >= PLANS_MAX:
            del self._plans[next(iter(self._plans))]
        self._plans[key] = prepared

    def _prepare(self, fetches: Any, feeds: Sequence[Any], targets: Sequence[Any]) -> _Prepared:
        graph = self.graph
        if self._version != graph.version:
            self._plans.clear()
            self._frames = None
            self._functions = None
            self._version = graph.version
        request = FetchPlan(graph, fetches, targets)
        feed_ports = [port_of(graph, feed) for feed in feeds]
        if len(set(feed_ports)) != len(feed_ports):
            raise InvalidArgumentError("a tensor is fed twice: " + ", ".join(map(str, feed_ports)))
        for port in feed_ports:
            self._check_frame(port, "fed")
        for port in request.ports:
            self._check_frame(port, "fetched")
        context = self._context(feed_ports, request)
        plan = self._plan(prepare(graph, context), context)
        return _Prepared(
            plan,
            [self._feed_spec(port) for port in feed_ports],
            [FetchSpec(str(port), self._dtype(port)) for port in request.ports],
            request.assemble,
        )

    def _plan(self, graph: Graph, context: PassContext) -> TieredPlan | PartitionedPlan:
        """The plan of a graph that passes have gone over: cut by device where it is on several."""
        functions = self._function_table()
        if len(self.devices) > 1:
            placement = self._placer(graph, context)
            if any(device != self.devices.default.name for device in placement.values()):
                cut = partition(graph, context, placement, self.devices.incarnations)
                return PartitionedPlan(cut, context, self.devices, self._kernels, functions)
        return TieredPlan(graph, context, self._kernels, functions)

    def _context(self, feeds: Sequence[OutputPort] = (), request: FetchPlan | None = None) -> PassContext:
        return PassContext(
            feeds=tuple(feeds),
            fetches=() if request is None else request.ports,
            targets=() if request is None else request.targets,
            fold_constants=self._settings.fold_constants,
            merge_common_subexpressions=self._settings.merge_common_subexpressions,
            kernels=self._kernels,
            declared=tuple(
                node
                for port in feeds
                if (node := self.graph[port.node]).op in ("Placeholder", "PlaceholderV2")
            ),
        )

    def _function_table(self) -> FunctionTable | None:
        """The plans of the graph's functions, kept while the graph does not change."""
        if self.graph.library is None:
            return None
        if self._functions is None:
            registry = self.graph.registry if isinstance(self.graph, BuildGraph) else op_registry()
            library = FunctionLibrary(self.graph.library, registry, self.graph.producer)
            self._functions = FunctionTable(library, self._kernels, self._context())
        return self._functions

    def _check_frame(self, port: OutputPort, what: str) -> None:
        """An edge inside a loop has one value an iteration: it can be neither fed nor fetched."""
        if self._frames is None:
            self._frames = {}
            if any(node.op in ENTER_OPS for node in self.graph):
                try:
                    self._frames = assign_frames(self.graph)
                except OpError:
                    # A part of the graph is malformed; it is a fault of runs that reach it.
                    self._frames = {}
        frame = output_frame(self.graph[port.node], self._frames.get(port.node, ()))
        if frame:
            raise InvalidArgumentError(
                f"'{port}' cannot be {what}: it belongs to {describe_frame(frame)}, where it has one value "
                "an iteration; use what goes into its Enter or comes out of its Exit"
            )

    def _dtype(self, port: OutputPort) -> DType | None:
        types = self.graph[port.node].output_types
        return types[port.slot] if port.slot < len(types) else None

    def _feed_spec(self, port: OutputPort) -> FeedSpec:
        node = self.graph[port.node]
        dtype = self._dtype(port)
        if dtype is None:
            raise InvalidArgumentError(f"'{port}' cannot be fed: the op {node.op} is not known here")
        shape = UNKNOWN_SHAPE
        if node.op in _PLACEHOLDERS:
            declared = node.attrs.get("shape", UNKNOWN_SHAPE)
            if isinstance(declared, TensorShape) and (
                declared.rank or self.graph.producer >= _SHAPED_PLACEHOLDERS or node.op == "PlaceholderV2"
            ):
                shape = declared
        return FeedSpec(str(port), dtype, shape)

    # -- the rest -----------------------------------------------------------------------------------

    @property
    def is_local(self) -> bool:
        """Whether steps run in this process, on `resources`, rather than at a target."""
        return self._remote is None

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
    ) -> str:
        """What a step would run: the nodes left after the passes, and what each pass removed.

        `dot=True` gives the graph in DOT instead, `source=True` the Python that a hot plan is turned into.
        """
        tiers = self._prepare(fetches, list(feeds), targets).plan
        if isinstance(tiers, PartitionedPlan):
            return tiers.explain(dot=dot, source=source)
        plan = tiers.interpreted
        if source:
            tiers.compile()
            return "\n\n".join(tiers.sources()) or "nothing to compile"
        if dot:
            return explain.to_dot(plan.graph)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(kernel_summary(plan).items()))
        difference = explain.difference(self.graph, plan.graph)
        return f"{explain.listing(plan.graph)}\nitems: {kinds or 'none'}\n\n{difference}"

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


def _key_of(fetches: Any, feed_dict: Mapping[Any, Any], targets: Sequence[Any]) -> Any:
    """What a plan is filed under; None for a structure that cannot be a key."""
    if isinstance(fetches, list):
        fetches = ("list", *fetches)
    try:
        key = (fetches, tuple(feed_dict), tuple(targets))
        hash(key)
    except TypeError:
        return None
    return key


__all__ = ["Session"]
