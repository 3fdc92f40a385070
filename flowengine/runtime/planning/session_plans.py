"""The plans of a session: made on first use, kept for the present graph, and counted.

Their memory counts towards that of the session. If memory is short, the oldest are dropped first: a plan can
be made again.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakSet

import trio

from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.arrays import Value
from flowengine.core.collector import collection_paused
from flowengine.core.config import Settings
from flowengine.core.deferred_parts import DeferredParts
from flowengine.core.errors import CancelledError, FailedPreconditionError, InvalidArgumentError
from flowengine.core.work_pieces import Piecework, at_once
from flowengine.devices.allocation import Ledger
from flowengine.devices.device import Device
from flowengine.devices.session_devices import OfferedDevices
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.cut.shared_names import SharedNames
from flowengine.runtime.planning.fetches import spread_feeds, unpack
from flowengine.runtime.planning.function_calls import StepCaller
from flowengine.runtime.planning.functions import FunctionTable
from flowengine.runtime.planning.large_string_feeds import are_long, converted
from flowengine.runtime.planning.measuring import PlacementMeasurement
from flowengine.runtime.planning.placing import Placer, SessionPlacer
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.planning_jobs import free_in_turns, in_turns
from flowengine.runtime.planning.preparing import PlannedRequest, PreparedPlan, RequestPlanner
from flowengine.runtime.planning.requests import PlanKey, Request
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.planning.values import FeedSpec
from flowengine.runtime.step import StepRunner, too_late

T = TypeVar("T")

#: Plans kept for one version of the graph; a service with more combinations than this makes some anew.
PLANS_MAX: Final = 512
#: The number of remembered requests. Any other reads its names again, which takes some 20 us.
REQUESTS_MAX: Final = 1024
#: The bytes of an item of an interpreted plan, without its constants: 950 to 1,540 by tracemalloc on CPython
#: 3.11, for chains of 100 to 10,000 nodes. If memory is counted no plan is compiled.
_ITEM_BYTES: Final = 1024


class SessionPlans:
    """See the module. `closed` says whether the session is.

    kept      {ports fed, ports fetched, nodes run: the plan}
    asked     {key of a request: its plan, which is kept, and the places of its values}
    version   the version of the graph for which they are
    lives     the number of lost devices: a plan from before is useless
    planner   makes them, for this version
    ready     the plans of callables
    """

    def __init__(
        self,
        graph: NodeGraph,
        settings: Settings,
        kernels: KernelRegistry,
        offered: OfferedDevices,
        placer: Placer,
        runner: StepRunner,
        closed: Callable[[], bool],
    ) -> None:
        self.kept: dict[PlanKey, PreparedPlan] = {}
        self.asked: dict[Any, PlannedRequest] = {}
        self.version = -1
        self.lives = 0
        self._names = SharedNames()
        self._tables: WeakSet[FunctionTable] = WeakSet()
        self.ready: WeakSet[ReadyPlan] = WeakSet()
        self._graph = graph
        self._settings = settings
        self._kernels = kernels
        self._offered = offered
        self._placer = placer
        self._runner = runner
        self._closed = closed
        #: The parts of plans that were forgotten.
        self._deferred = DeferredParts()
        self._ledger = runner.ledger
        if self._ledger is not None:
            self._ledger.relief = self._make_room
        self.planner = self._new_planner()

    async def close(self) -> None:
        """Forget all plans, and abandon unfinished ones. Large plans are freed in turns."""
        with self._deferred:
            self._forget()
            self.planner.close()
            for ready in list(self.ready):
                ready.close()
            for table in list(self._tables):
                table.close()
        if self._ledger is not None:
            self._ledger.relief = None
        await free_in_turns(self._deferred)

    def prepare(self, leaves: Iterable[Any], feeds: Sequence[Any], targets: Sequence[Any]) -> PlannedRequest:
        """Make a plan, at once, and do not keep it."""
        self._notice_growth()
        with collection_paused():
            request = self.planner.requests.read(leaves, feeds, targets)
            return PlannedRequest(at_once(self.planner.preparing(request)), request.wanted.slots)

    def begin(
        self, leaves: Iterable[Any], feeds: Sequence[Any], targets: Sequence[Any]
    ) -> tuple[Sequence[int], Piecework[PreparedPlan]]:
        """Begin a plan of the present graph, not to be kept; return the places of its values, and its job.

        Raises InvalidArgumentError or NotFoundError for a request that the graph cannot answer.
        """
        self._notice_growth()
        request = self.planner.requests.read(leaves, feeds, targets)
        job = Piecework(self.planner.preparing(request))
        job.advance(0.0)  # its first piece reads the graph, which may grow from then on
        return request.wanted.slots, job

    async def finish(self, job: Piecework[PreparedPlan]) -> None:
        """Finish a job, in turns, for a step that is under way.

        Raises FailedPreconditionError if the session is closed, CancelledError if it is closed meanwhile.
        """
        if self._closed():
            raise FailedPreconditionError("this session is closed: open another")
        self._runner.bind()
        await in_turns(job, self._runner.turns)
        if self._closed():
            raise CancelledError(SESSION_CLOSED)

    def find(
        self, leaves: tuple[Any, ...], feeds: Mapping[Any, Any], targets: Iterable[Any]
    ) -> tuple[Any, Mapping[Any, Any], PlannedRequest | None]:
        """Look for a request among earlier ones.

        returns   its key, None if a part of it cannot be one; the feeds, with structures among them expanded
                  unless the
                  request was found without; and its plan, or None

        Raises InvalidArgumentError for a structure that is fed anything but its parts.
        """
        key: Any = (leaves, tuple(feeds), tuple(targets))
        try:
            found = self.asked.get(key)
        except TypeError:
            key = found = None
        if self.version != self._graph.version:
            found = None
        if found is None and (spread := spread_feeds(feeds)) is not feeds:
            return self.find(leaves, spread, targets)
        return key, feeds, found

    def kept_for(
        self, leaves: Iterable[Any], feeds: Sequence[Any], targets: Sequence[Any]
    ) -> PreparedPlan | None:
        """Return the plan that steps of a request use now; None if there is none."""
        if self.version != self._graph.version:
            return None
        return self.kept.get(self.planner.requests.read(leaves, feeds, targets).plan_key)

    async def prepare_in_turns(
        self,
        key: Any,
        leaves: Iterable[Any],
        feeds: Sequence[Any],
        targets: Sequence[Any],
        timeout_seconds: float | None,
        waited: float,
    ) -> tuple[PlannedRequest, float]:
        """Return a plan for a step that is under way, and the seconds of its timeout that have passed.

        Tasks that need the same plan at the same time make one, together. It is kept, and with a key the
        request is remembered.
        """
        if self._closed():
            raise FailedPreconditionError("this session is closed: open another")
        self._runner.bind()
        with self._deferred:
            self._notice_growth()
        planner = self.planner
        making = partial(self._make, planner, leaves, feeds, targets)
        (request, prepared), waited = await self._within(making, timeout_seconds, waited)
        planner.jobs.pop(request.plan_key, None)
        found = PlannedRequest(prepared, request.wanted.slots)
        if planner is self.planner:
            with self._deferred:
                self._keep(request.plan_key, prepared)
            if key is not None:
                if len(self.asked) >= REQUESTS_MAX:
                    del self.asked[next(iter(self.asked))]
                self.asked[key] = found
        await free_in_turns(self._deferred)
        return found, waited

    def takes_long(self, specs: Sequence[FeedSpec], values: Sequence[Any]) -> bool:
        """Return whether some feeds of a step are long, and need turns."""
        return are_long(specs, values)

    async def feed_in_turns(
        self, specs: Sequence[FeedSpec], values: Sequence[Any], timeout_seconds: float | None, waited: float
    ) -> tuple[list[Value], float]:
        """Convert the feeds of a step, of which some are long; return them and the seconds gone.

        The seconds count towards the step's timeout.
        """
        converting = partial(converted, specs, values)
        return await self._within(converting, timeout_seconds, waited)

    async def _within(
        self, function: Callable[[], Awaitable[T]], timeout_seconds: float | None, waited: float
    ) -> tuple[T, float]:
        """Run a function before a step begins; return its result and the seconds of the timeout gone."""
        before = trio.current_time() - waited
        if timeout_seconds is None:
            made = await function()
        else:
            with trio.move_on_after(timeout_seconds - waited) as scope:
                made = await function()
            if scope.cancelled_caught:
                raise too_late(timeout_seconds)
        waited = trio.current_time() - before
        if timeout_seconds is not None and waited >= timeout_seconds:
            raise too_late(timeout_seconds)
        if self._closed():
            raise CancelledError(SESSION_CLOSED)
        return made, waited

    async def _make(
        self, planner: RequestPlanner, leaves: Iterable[Any], feeds: Sequence[Any], targets: Sequence[Any]
    ) -> tuple[Request, PreparedPlan]:
        """Return a request, and its plan: the kept one, or one that this task and others make."""
        turns = self._runner.turns
        reading = planner.reading(leaves, feeds, targets)
        await in_turns(reading, turns)
        request = reading.result()
        kept = self.kept.get(request.plan_key) if planner is self.planner else None
        if kept is not None:
            return request, kept
        job = planner.job(request)
        await in_turns(job, turns)
        while job.has_failed and not self._closed():
            # Another task got the error.
            job = planner.job(request)
            await in_turns(job, turns)
        if self._closed():
            raise CancelledError(SESSION_CLOSED)  # closing abandons unfinished plans
        return request, job.result()

    def renew_devices(self) -> None:
        """Replace lost devices by successors; earlier plans are then useless."""
        if self._offered.devices.renew():
            self.lives += 1
            self.version = -1
            if isinstance(self._placer, SessionPlacer):
                self._placer.devices_came()

    def is_followed(self, lost: Device) -> bool:
        """Replace lost devices by successors; return whether this one has one."""
        self.renew_devices()
        return self._offered.devices[lost.name] is not lost

    def _notice_growth(self) -> None:
        """Discard the plans made so far if the graph has grown, or a device is lost."""
        self.renew_devices()
        if self.version != self._graph.version:
            self._forget()
            if self._offered.grow() and isinstance(self._placer, SessionPlacer):
                self._placer.devices_came()
            self.planner = self._new_planner()
            self.version = self._graph.version

    def _new_planner(self) -> RequestPlanner:
        compiler = self._runner.compile if self._settings.compiles_plans else None
        calling = partial(StepCaller, self._runner)
        return RequestPlanner(
            self._graph,
            self._settings,
            self._kernels,
            self._offered.devices,
            self._placer,
            compiler,
            calling,
            self._names,
            self._tables,
        )

    def _forget(self, keys: Iterable[PlanKey] | None = None) -> None:
        """Forget plans, or all of them, with the requests that use them."""
        if keys is None:
            self.kept.clear()
            self.asked.clear()
            return
        gone = {plan for key in keys if (plan := self.kept.pop(key, None)) is not None}
        for asked in [key for key, found in self.asked.items() if found.prepared in gone]:
            del self.asked[asked]

    def _keep(self, key: PlanKey, prepared: PreparedPlan) -> None:
        if self.kept.get(key) is prepared:
            return  # several tasks needed it, and another has kept it
        if len(self.kept) >= PLANS_MAX:
            self._forget([next(iter(self.kept))])
        if self._ledger is not None:
            self._count(prepared, self._ledger)
        self.kept[key] = prepared

    def _make_room(self) -> bool:
        """Forget the older half of the plans; return whether there were any. Steps keep theirs to the end."""
        keys = list(self.kept)
        self._forget(keys[: (len(keys) + 1) // 2])
        if keys:
            # Values of a failed step may be held by its error, whose frames refer to each other.
            gc.collect()
        return bool(keys)

    def _count(self, prepared: PreparedPlan, ledger: Ledger) -> None:
        """Count the memory of a plan, as long as it lives."""
        items = 0
        device = self._offered.devices.default
        for plan in _interpreted(prepared):
            items += len(plan.items)
            values = [value for _, _, value in plan.constants]
            values += [item.value for item in plan.items if item.value is not None]
            for value in values:
                owned = device.owner_of(value)
                if owned is not None:
                    ledger.hold(*owned, "the constants of plans")
        ledger.hold(prepared, items * _ITEM_BYTES, "plans")


class ReadyPlan:
    """A plan for many steps, made in turns by the first of them, and anew after a device is lost.

    pack   puts the values of the leaves into the structure of the fetches

    The request is checked at once, and the plan is of the present graph. It is not among the plans that the
    session keeps, and lasts as long as this. Closing the session frees it.
    """

    def __init__(
        self, planning: SessionPlans, fetches: Any, feeds: Sequence[Any], targets: Sequence[Any]
    ) -> None:
        """Raise InvalidArgumentError or NotFoundError for a request that the graph cannot answer."""
        self._planning = planning
        leaves, self.pack = unpack(fetches)
        self._request = (leaves, list(feeds), targets)
        self._prepared: PlannedRequest | None = None
        self._lives = planning.lives
        self._slots, job = planning.begin(*self._request)
        self._job: Piecework[PreparedPlan] | None = job
        planning.ready.add(self)

    def check(self, values: Sequence[Any]) -> None:
        """Raise InvalidArgumentError unless there is one value for each feed."""
        count = len(self._request[1])
        if len(values) != count:
            raise InvalidArgumentError(f"this callable takes {count} values, not {len(values)}")

    def at_hand(self) -> PlannedRequest | None:
        """Return the plan for a step that begins now; None if it has to be made anew."""
        return self._prepared if self._lives == self._planning.lives else None

    async def current(self) -> PlannedRequest:
        """Return the plan for a step that begins now.

        Steps that need it at the same time make it together. If one is cancelled, the next continues. Raises
        the faults of the nodes that the request reaches, in every step.
        """
        planning, job = self._planning, self._job
        found = self._prepared if self._lives == planning.lives else None
        if found is None and job is not None and not job.has_failed and self._lives == planning.lives:
            await planning.finish(job)
            if not job.has_failed:
                found = PlannedRequest(job.result(), self._slots)
        if found is None:
            # A device was lost, or another step got the error of planning: this one finds it out itself.
            lives = planning.lives
            found, _ = await planning.prepare_in_turns(None, *self._request, None, 0.0)
            self._lives = lives
        if self._prepared is not found:
            self._prepared, self._job = found, None
        return found

    def close(self) -> None:
        """Discard the plan: no more steps begin."""
        if self._job is not None:
            self._job.give_up()
        self._prepared = self._job = None


def _interpreted(prepared: PreparedPlan) -> list[Plan]:
    """Return the plans that a request's plan consists of, one for each device."""
    plan = prepared.plan
    if isinstance(plan, PlacementMeasurement):
        plan = plan.plan
    tiers = [plan] if isinstance(plan, TieredPlan) else [part.tiers for part in plan.parts]
    return [each.interpreted for each in tiers]


__all__ = ["PLANS_MAX", "REQUESTS_MAX", "ReadyPlan", "SessionPlans"]
