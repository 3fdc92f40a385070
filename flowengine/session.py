"""Session: runs a graph in this process, inside a trio program."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from typing import Any, Unpack, overload

from flowengine.core import tracebacks
from flowengine.core.config import Config, box_of
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, OpError
from flowengine.core.run_options import RunOptions, timeout_of
from flowengine.core.sessions.run_arguments import FeedDict, Fetch, Key, OneFetch, RunArguments
from flowengine.core.sessions.statistics import SessionStatistics
from flowengine.core.sessions.view import SessionView
from flowengine.core.targets import opener_for
from flowengine.devices.device import DeviceRegistry, DeviceSet
from flowengine.devices.load import DEVICES
from flowengine.devices.session_devices import OfferedDevices
from flowengine.graphs.given import checked_graph
from flowengine.graphs.graph import Graph
from flowengine.graphs.variables.initializing import SessionVariables
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.checked import CheckedKernels
from flowengine.kernels.common.generators import places_of, random_sequences, set_places
from flowengine.kernels.load import registry as kernel_registry
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.place.costs import CostModel
from flowengine.resources.container import ResourceManager
from flowengine.runtime.partitioned_plan import PartitionedPlan
from flowengine.runtime.partitions import PartitionRunner
from flowengine.runtime.planning.admission import admission_of
from flowengine.runtime.planning.explaining import explained, explained_placement
from flowengine.runtime.planning.fetches import as_values, unpack
from flowengine.runtime.planning.measuring import PlacementMeasurement
from flowengine.runtime.planning.placing import Placer, SessionPlacer
from flowengine.runtime.planning.preparing import PreparedPlan
from flowengine.runtime.planning.requests import Requests
from flowengine.runtime.planning.session_plans import ReadyPlan, SessionPlans
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.planning.values import FetchSpec, own_values
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.runtime.step import StepRunner
from flowengine.transport.tensors.rendezvous import LocalRendezvous


class Session(SessionVariables, SessionView):
    """Steps of one graph in this process.

    graph       the graph to run; it may grow between steps, and the session notices
    target      "" for this process; "scheme://address" where that scheme is registered
    config      settings; see `Config`
    resources   a resource manager shared with other sessions, else one of its own
    kernels     a registry of kernels to use instead of this package's
    devices     the device types that it may use, instead of this package's
    placer      an object that chooses the device of each node, instead of the session

    Use it with `async with`, or call `close`. It belongs to the trio run that first runs a step. Steps may
    run at the same time; variables, queues and tables live in the session's resource manager between them.
    Raises InvalidArgumentError for anything but a graph, such as a path, and for options that do not fit.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None])
    >>> async def main():
    ...     async with fe.Session(graph) as session:  # else `await session.close()` at the end
    ...         square = session.make_callable(x * x, feeds=[x])
    ...         print(await session.run(x + x, {x: [3.0, 4.0]}), await square([5.0]))
    ...         session.extend(fe.Graph())
    ...         with session.when_steps_end(lambda: None):  # a function to call after each step
    ...             print(session.explain(fe.exp(x), [x]).splitlines()[0], await session.run(x, {x: [1.0]}))
    ...         await session.set_random_places(await session.random_places())
    ...         await session.reset([])  # variables, queues and tables are gone
    ...         assert session.at_step_boundary(lambda nodes: True) and not session.statistics().running_steps
    >>> trio.run(main)
    [6. 8.] [25.]
    Exp = Exp(Placeholder:0) [1.]
    """

    @tracebacks.hides_engine
    def __init__(
        self,
        graph: NodeGraph | None = None,
        *,
        target: str = "",
        config: Config | None = None,
        resources: ResourceManager | None = None,
        kernels: KernelRegistry | None = None,
        devices: DeviceRegistry | None = None,
        placer: Placer | None = None,
    ) -> None:
        self.graph: NodeGraph = Graph() if graph is None else checked_graph(graph)
        self.config = config if config is not None else Config()
        self._settings = self.config.resolved()
        if box_of(self.config) is not None:
            if target or kernels is not None or devices is not None:
                raise InvalidArgumentError(
                    "a sandboxed session runs in a process of its own: it takes no target, kernels or devices"
                )
            target = "sandbox://"
        self._target = target
        self._remote: Any = opener_for(target)(target, self.graph, self.config) if target else None
        self._owns_resources = resources is None
        self.resources = resources if resources is not None else ResourceManager()
        types = devices if devices is not None else DEVICES
        self._offered = OfferedDevices(types, None if target else self.graph, self._settings)
        self.devices: DeviceSet = self._offered.devices
        if kernels is None:
            kernels = kernel_registry(self._settings.kernel_provider)
        else:
            kernels.check_ops(getattr(self.graph, "registry", None) or op_registry())
        if self._settings.checked:
            kernels = CheckedKernels(kernels)
        self._kernels = kernels
        self._runner = StepRunner(self.resources, self._settings, self.devices.default, kernels)
        self._compiles = self._settings.compiles_plans
        self.partitions = PartitionRunner(self._runner, LocalRendezvous, compiles=self._compiles)
        if placer is None:
            whole = self.graph
            placer = SessionPlacer(self.devices, kernels, self._settings, lambda: whole)
        self._placer: Placer = placer
        self._closed = False
        self.hand_out: Callable[[Sequence[FetchSpec], list[Any]], list[Any]] = own_values  # or `lent_values`
        # A weak reference, because plans that refer to the session would keep both until a collection.
        own = weakref.ref(self)
        self._planning = SessionPlans(
            self.graph,
            self._settings,
            kernels,
            self._offered,
            placer,
            self._runner,
            lambda: (found := own()) is None or found._closed,
        )
        self._plans = self._planning.kept
        self.partitions.when_lost = self._planning.is_followed
        self._admission = admission_of(self._settings)

    def _shown_graph(self) -> NodeGraph:
        return self.graph

    def _state(self) -> str:
        return "closed" if self._closed else "open"

    def _facts(self) -> Iterable[tuple[str, object]]:
        where = ", ".join(self.devices.names) if self._remote is None else self._target.partition("?")[0]
        return [("runs at", where), ("plans", len(self._plans)), ("config", self.config)]

    def _holds_open(self) -> bool:
        if getattr(self, "_closed", True):
            return False
        if self._remote is not None:
            return getattr(self._remote, "has_opened", False)
        return self._owns_resources and self.resources.is_bound

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @overload
    async def run(
        self, fetches: OneFetch, feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> Any: ...

    @overload
    async def run(
        self, fetches: dict[Key, Fetch], feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> dict[Key, Any]: ...

    @overload
    async def run(
        self, fetches: list[Fetch], feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> list[Any]: ...

    @overload
    async def run(
        self, fetches: Any, feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> Any: ...

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

        fetches     "node:slot" for a value, "node" to run a node (yields None), the name of a resource
                    variable for its value, a Tensor, Operation or variable, or structures of them: lists,
                    tuples, named tuples, mappings, dataclasses (sparse tensors, slices) and attrs classes,
                    with None in them
        feed_dict   {"node:slot", "node" or Tensor: value} instead of what the graph would compute there; for
                    a sparse tensor one of arrays, or a tuple of its parts
        targets     nodes to run for their effect
        options, run_metadata   `RunOptions` of this step; a `RunMetadata` to fill with its times and memory

        Values are NumPy scalars or arrays, `bytes` or object arrays of `bytes` for strings; the caller owns
        them. Raises an error of `flowengine.errors`; trio.Cancelled if the caller is cancelled, which leaves
        the session usable and the effects of nodes that had completed in place.
        """
        feed_dict, waited, admission = feed_dict or {}, 0.0, self._admission
        if admission is not None:
            waited = await admission.enter(options, run_metadata)
        try:
            if self._remote is not None:
                return await self._remote.run(
                    fetches, feed_dict, targets=targets, options=options, run_metadata=run_metadata
                )
            leaves, pack = unpack(fetches)
            key, feed_dict, found = self._planning.find(leaves, feed_dict, targets)
            if found is None:
                timeout = None if options is None else timeout_of(options)
                found, waited = await self._planning.prepare_in_turns(
                    key, leaves, list(feed_dict), targets, timeout, waited
                )
            results = await self._step(found.prepared, [*feed_dict.values()], options, run_metadata, waited)
            return pack(results if found.slots is None else found.values(results))
        except OpError as error:
            self._simplify_error(error)
            raise
        finally:
            if admission is not None:
                admission.leave()

    @tracebacks.hides_engine
    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), targets: Sequence[Any] = ()
    ) -> Callable[..., Awaitable[Any]]:
        """Return a coroutine function that runs one step for fixed fetches: `await function(value, ...)`.

        `fetches` and `targets` are those of `run`, but a bare "y" is "y:0". `feeds` are the tensors that the
        function takes values for, in order. Its first call makes the plan. A graph that has grown since
        changes nothing. Raises as `run` does.
        """
        if self._remote is not None:
            there: Callable[..., Awaitable[Any]] = self._remote.make_callable(fetches, feeds, targets)
            return tracebacks.hides_engine(there)
        return self._calling(ReadyPlan(self._planning, as_values(self.graph, fetches), feeds, targets))

    def _calling(self, ready: ReadyPlan) -> Callable[..., Awaitable[Any]]:
        async def call(*values: Any) -> Any:
            waited = 0.0 if self._admission is None else await self._admission.enter(None)
            try:
                ready.check(values)
                found = await ready.current()
                return ready.pack(found.values(await self._step(found.prepared, values, None, None, waited)))
            except OpError as error:
                self._simplify_error(error)
                raise
            finally:
                if self._admission is not None:
                    self._admission.leave()

        return call

    async def _prepare(self, fetches: Any, feeds: Sequence[Any] = (), targets: Sequence[Any] = ()) -> None:
        """Make the plan of a step beforehand, in turns; at a target do nothing. Raises as `run` does."""
        if self._remote is None:
            await self._planning.prepare_in_turns(None, unpack(fetches)[0], [*feeds], targets, None, 0.0)

    def _simplify_error(self, error: OpError) -> None:
        """Shorten an error: leave out the engine's frames, and the name of the only device."""
        tracebacks.shorten(error)
        error.shows_device = self._remote is not None or len(self.devices) > 1

    async def _step(
        self,
        prepared: PreparedPlan,
        values: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
        waited: float = 0.0,
    ) -> list[Any]:
        """Run a step of a plan, which has waited for `waited` seconds of its timeout; return its fetches."""
        if self._closed:
            raise FailedPreconditionError("this session is closed: open another")
        self._runner.bind()
        timeout = None if options is None else timeout_of(options)
        if prepared.takes_text and self._planning.takes_long(prepared.feeds, values):
            feeds, waited = await self._planning.feed_in_turns(prepared.feeds, values, timeout, waited)
        else:
            feeds = [spec.convert(value) for spec, value in zip(prepared.feeds, values, strict=True)]
        tiers = prepared.plan
        if isinstance(tiers, TieredPlan):
            learns = self._compiles and not (options is not None and options.looks_at_values)
            plan = tiers.choose(feeds) if learns else tiers.interpreted
            started = perf_counter()
            results = await self._runner.run(plan, feeds, timeout, run_metadata, waited, options=options)
            if learns and plan is tiers.interpreted and tiers.ran(feeds, perf_counter() - started):
                await self._runner.compile_in_turns(tiers)
        elif isinstance(tiers, PartitionedPlan):
            results, hot = await self.partitions.run(tiers, feeds, timeout, run_metadata, options, waited)
            for part in hot:
                await self._runner.compile_in_turns(part)
        else:
            with tiers.trial() as tried:
                found = await self._step(prepared.with_plan(tried), values, options, run_metadata, waited)
            if tiers.done:
                prepared.plan = tiers.plan
            return found
        del feeds
        return self.hand_out(prepared.fetches, results)

    @property
    def costs(self) -> CostModel:
        """The measured costs of the graph's nodes; empty if the session does not place them itself."""
        placer = self._placer
        return placer.placer.costs if isinstance(placer, SessionPlacer) else CostModel()

    def statistics(self) -> SessionStatistics:
        """Return the session's memory, steps and plans; at a target only its steps: tasks hold the rest."""
        ledger, admission = self._runner.ledger, self._admission
        running = len(self._runner.running) if admission is None else admission.running
        refused = 0 if admission is None else admission.refused
        return SessionStatistics(
            used_bytes=None if ledger is None else ledger.live,
            peak_bytes=None if ledger is None else ledger.peak,
            limit_bytes=self._settings.session_memory_bytes,
            refused=refused if ledger is None else refused + ledger.refused,
            running_steps=running,
            waiting_steps=0 if admission is None else admission.waiting,
            plans=len(self._plans),
        )

    @property
    def elsewhere(self) -> Any:
        """The object that runs the steps at a target or in a sandbox; None for a session of this process."""
        return self._remote

    @property
    def is_local(self) -> bool:
        """Whether steps run in this process, on `resources`, rather than at a target."""
        return self._remote is None

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called: no step runs any more, and none can begin."""
        return self._closed

    @tracebacks.hides_engine
    async def reset(self, containers: Sequence[str]) -> None:
        """Clear `containers` ("" is the default one, [] all) here, or at a target on every task.

        Sessions that share them lose the resources, too. Raises UnavailableError naming a lost task.
        """
        if self._remote is not None:
            await self._remote.reset(containers)
            return
        self.resources.reset(containers)
        await self.resources.ended()

    async def random_places(self) -> dict[str, str]:
        """Return the positions of the graph's random nodes in their sequences, for a checkpoint."""
        sequences = random_sequences(self.graph)
        if sequences and self._remote is not None:
            return dict(await self._remote.random_places(sequences))
        return places_of(self.resources, sequences)

    async def set_random_places(self, places: Mapping[str, str]) -> None:
        """Set the positions of random nodes to `places`, of `random_places`; others begin anew."""
        sequences = random_sequences(self.graph)
        if sequences and self._remote is not None:
            await self._remote.set_random_places(sequences, places)
        elif sequences:
            set_places(self.resources, sequences, places)

    def at_step_boundary(self, counts: Callable[[NodeGraph], bool]) -> bool:
        """Whether no step is running for which `counts`, a function of the graph of its nodes, is true."""
        plans = [executor.plan for executor in self._runner.running]
        return not any(counts((plan if plan.unfused is None else plan.unfused).graph) for plan in plans)

    @contextmanager
    def when_steps_end(self, call: Callable[[], None]) -> Iterator[None]:
        """Return a context in which `call` is called whenever a step has ended, before its caller goes on."""
        self._runner.ended.append(call)
        try:
            yield
        finally:
            self._runner.ended.remove(call)

    @tracebacks.hides_engine
    def extend(self, graph: NodeGraph) -> None:
        """Add the nodes of another graph; InvalidArgumentError, with nothing added, if a name is taken."""
        taken = [node.name for node in graph if node.name in self.graph]
        if taken:
            raise InvalidArgumentError(f"the session's graph already has nodes named {', '.join(taken[:10])}")
        for node in graph:
            self.graph.add(node)

    @tracebacks.hides_engine
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
        """Describe a step (`fetches`, `feeds`, `targets`): its nodes, and those that each pass removed.

        `dot=True` returns the graph in DOT instead, `source=True` the Python code of a compiled plan,
        `placement=True` the device of each node with the reason, `form=True` the present blocks of the step,
        their nodes, and where each of them runs. Raises as `run` does.
        """
        leaves, _ = unpack(fetches)
        if placement:
            requests = Requests(self.graph)
            context = requests.context(requests.read(leaves, feeds, targets), self._settings, self._kernels)
            return explained_placement(self.graph, context, self._placer)
        kept = self._planning.kept_for(leaves, feeds, targets) if form else None
        tiers = (kept or self._planning.prepare(leaves, list(feeds), targets).prepared).plan
        plan = tiers.plan if isinstance(tiers, PlacementMeasurement) else tiers
        return explained(plan, self.graph, dot=dot, source=source, form=form)

    async def close(self) -> None:
        """End the running steps with CancelledError; free the session's plans, in turns, and its resources.

        Closing twice does nothing. Tasks that worked for its resources have ended when this returns.
        """
        if self._closed:
            return
        self._closed = True
        if self._remote is not None:
            await self._remote.close()
        if self._admission is not None:
            self._admission.close()
        self._runner.cancel_all()
        await self._planning.close()
        self.partitions.close()
        if self._owns_resources:
            self.resources.close()
        else:
            self.resources.clear(self._runner.owner)  # the resources of this session alone
        await self.resources.ended()


__all__ = ["Session", "SessionStatistics"]
