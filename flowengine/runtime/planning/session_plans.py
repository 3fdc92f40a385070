"""The plans of a session: made when they are first asked for, kept for the graph as it is, counted.

What they take counts among what the session holds. Where memory is short the oldest go first: a plan can be
made again.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import trio

from flowengine.core.arrays import Value
from flowengine.core.collector import collection_paused
from flowengine.core.config import Settings
from flowengine.core.errors import CancelledError, FailedPreconditionError
from flowengine.core.pieces import Piecework, at_once
from flowengine.core.wanted import SESSION_CLOSED
from flowengine.devices.allocation import Ledger
from flowengine.devices.device import Device
from flowengine.devices.offered import OfferedDevices
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.cut.shared_names import SharedNames
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning.calling import StepCaller
from flowengine.runtime.planning.jobs import in_turns
from flowengine.runtime.planning.long_texts import are_long, converted
from flowengine.runtime.planning.measuring import Measuring
from flowengine.runtime.planning.placing import Placer, SessionPlacer
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.preparing import PreparedPlan, RequestPlanner
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.planning.values import FeedSpec
from flowengine.runtime.step import StepRunner, too_late

T = TypeVar("T")

#: Plans kept for one version of the graph; a service with more combinations than this makes some anew.
PLANS_MAX: Final = 512
#: What an item of an interpreted plan takes, without its constants: 950 to 1,540 by tracemalloc on CPython
#: 3.11, for chains of 100 to 10,000 nodes. Where memory is counted no plan is compiled.
_ITEM_BYTES: Final = 1024


class SessionPlans:
    """See the module. `closed` says whether the session is.

    kept      {what a request is filed under: its plan}
    version   that of the graph which they are for
    lives     how often devices were lost: a plan of before is of no use after
    planner   makes them, for this version
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
        self.kept: dict[Any, PreparedPlan] = {}
        self.version = -1
        self.lives = 0
        self._names = SharedNames()
        self._graph = graph
        self._settings = settings
        self._kernels = kernels
        self._offered = offered
        self._placer = placer
        self._runner = runner
        self._closed = closed
        self._ledger = runner.ledger
        if self._ledger is not None:
            self._ledger.relief = self._make_room
        self.planner = self._new_planner()

    @property
    def _resources(self) -> ResourceManager:
        return self._runner.resources

    def close(self) -> None:
        """Forget all plans, and give up what is being made."""
        self.kept.clear()
        self.planner.close()

    def prepare(self, fetches: Any, feeds: Sequence[Any], targets: Sequence[Any]) -> PreparedPlan:
        """A plan, made at once and not kept."""
        self._notice_growth()
        with collection_paused():
            return at_once(self.planner.preparing(fetches, feeds, targets))

    async def prepare_in_turns(
        self,
        key: Any,
        fetches: Any,
        feeds: Sequence[Any],
        targets: Sequence[Any],
        timeout_seconds: float | None,
        waited: float,
    ) -> tuple[PreparedPlan, float]:
        """A plan for a step that is under way, and how many seconds of its timeout have gone by then.

        Those who ask for the same plan at the same time make one, all of them. One with a key is kept.
        """
        if self._closed():
            raise FailedPreconditionError("this session is closed")
        self._resources.bind_to_current_run()
        self._notice_growth()
        planner = self.planner
        making = partial(self._make, key, fetches, feeds, targets)
        job, waited = await self._within(making, timeout_seconds, waited)
        prepared = job.result()
        if key is not None:
            planner.jobs.pop(key, None)
            if planner is self.planner:
                self._keep(key, prepared)
        return prepared, waited

    def takes_long(self, specs: Sequence[FeedSpec], values: Sequence[Any]) -> bool:
        """Whether some of what a step is fed is long, and due in turns."""
        return are_long(specs, values)

    async def feed_in_turns(
        self, specs: Sequence[FeedSpec], values: Sequence[Any], timeout_seconds: float | None, waited: float
    ) -> tuple[list[Value], float]:
        """What a step is fed, of which some is long, and how much of its timeout has gone by then."""
        converting = partial(converted, specs, values)
        return await self._within(converting, timeout_seconds, waited)

    async def _within(
        self, function: Callable[[], Awaitable[T]], timeout_seconds: float | None, waited: float
    ) -> tuple[T, float]:
        """What a step does before it begins to run, and how many seconds of its timeout have gone by then."""
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
        self, key: Any, fetches: Any, feeds: Sequence[Any], targets: Sequence[Any]
    ) -> Piecework[PreparedPlan]:
        """A plan that is made, by this task and by others that want it."""
        planner, turns = self.planner, self._runner.turns
        job = planner.job(key, fetches, feeds, targets)
        await in_turns(job, turns)
        while job.has_failed and not self._closed():
            # Somebody else was told why.
            job = planner.job(key, fetches, feeds, targets)
            await in_turns(job, turns)
        return job

    def renew_devices(self) -> None:
        """Have successors of devices that are lost; plans made so far are then of no use."""
        if self._offered.devices.renew():
            self.lives += 1
            self.version = -1
            if isinstance(self._placer, SessionPlacer):
                self._placer.devices_came()

    def is_followed(self, lost: Device) -> bool:
        """Have successors of devices that are lost; whether this one has one."""
        self.renew_devices()
        return self._offered.devices[lost.name] is not lost

    def _notice_growth(self) -> None:
        """Where the graph has grown, or a device is lost, plans made so far are of no use."""
        self.renew_devices()
        if self.version != self._graph.version:
            self.kept.clear()
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
        )

    def _keep(self, key: Any, prepared: PreparedPlan) -> None:
        if self.kept.get(key) is prepared:
            return  # several asked for it, and another has kept it
        if len(self.kept) >= PLANS_MAX:
            del self.kept[next(iter(self.kept))]
        if self._ledger is not None:
            self._count(prepared, self._ledger)
        self.kept[key] = prepared

    def _make_room(self) -> bool:
        """Forget the older half of the plans; whether there were any. Those that steps run stay till then."""
        keys = list(self.kept)
        for key in keys[: (len(keys) + 1) // 2]:
            self.kept.pop(key, None)
        if keys:
            gc.collect()  # items and frames refer to each other
        return bool(keys)

    def _count(self, prepared: PreparedPlan, ledger: Ledger) -> None:
        """Count what a plan takes, as long as it lives."""
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
    """A plan that is made beforehand for many steps, and anew when a device of it was lost."""

    def __init__(
        self, planning: SessionPlans, fetches: Any, feeds: Sequence[Any], targets: Sequence[Any]
    ) -> None:
        self._planning = planning
        self._request = (fetches, list(feeds), targets)
        self._prepared = planning.prepare(*self._request)
        self._lives = planning.lives

    async def current(self) -> PreparedPlan:
        """The plan for a step that begins now. Cancelled: the next step goes on with making it."""
        if self._lives != self._planning.lives:
            lives = self._planning.lives
            self._prepared, _ = await self._planning.prepare_in_turns(None, *self._request, None, 0.0)
            self._lives = lives
        return self._prepared


def _interpreted(prepared: PreparedPlan) -> list[Plan]:
    """The plans that a request's plan is made of, one a device."""
    plan = prepared.plan
    if isinstance(plan, Measuring):
        plan = plan.plan
    tiers = [plan] if isinstance(plan, TieredPlan) else [part.tiers for part in plan.parts]
    return [each.interpreted for each in tiers]


__all__ = ["PLANS_MAX", "ReadyPlan", "SessionPlans"]
