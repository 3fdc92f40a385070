"""Tiers of a plan: interpreted at first, compiled when it is hot.

Meanwhile the interpreter learns which nodes are heavy; they stay items of their own, so that worker threads
still serve them. A compiled plan is for inputs of the observed size: a step with much larger feeds is
interpreted, and so observed, again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from flowengine.core.collector import collection_paused
from flowengine.core.errors import OpError
from flowengine.core.work_pieces import Pieces, Piecework, at_once
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.blocks.cutting import REGION_LIMITS, WHOLE_LIMITS
from flowengine.passes.context import HotContext, PassContext
from flowengine.passes.pipeline import heating
from flowengine.runtime.in_place.eligibility import never_waits
from flowengine.runtime.planning.binding import Functions
from flowengine.runtime.planning.items import Kind
from flowengine.runtime.planning.plan import Plan, form_of
from flowengine.runtime.planning.planner import making_plan
from flowengine.runtime.planning.timings import InPlaceTimes, Record, RequestTimings

#: Compiling costs about 40 us for each node, of which a run returns 1: worth it from some 40 runs on, or at
#: once for a loop, and after a second run for heavy nodes. It waits for few runs because a user who runs a
#: plan four times runs it four hundred.
#: At 0 every plan is compiled before its first run, which tests use.
HOT_RUNS = 4
#: Compiling a plan of so many nodes takes as long as fifty of its steps: it begins at the second one.
_LARGE_NODES: Final = 2000
_LARGE_HOT_RUNS: Final = 2
#: A plan is hot after interpreting takes so many times the time of compiling, whatever the number of runs.
_HOT_RATIO: Final = 4.0
_COMPILE_SECONDS_A_NODE: Final = 20e-6
#: Feeds may grow so much before a compiled plan's knowledge of heavy nodes is not trusted any more.
_GROWTH: Final = 2
_SMALL_BYTES: Final = 64 * 1024
#: So many slow iterations of compiled loops are not an accident of the machine.
_SLOW_ITERATIONS: Final = 4
#: The number of times that a long iteration may send the plan back to the interpreter.
_LOOKS: Final = 3
#: So many slow regions are not an accident either; regions are made smaller, down to so many members.
_SLOW_REGIONS: Final = 2
_MEMBERS_MIN: Final = 8
#: A plan of more nodes than this is compiled on a thread: it would block the event loop.
INLINE_NODES: Final = 400


class TieredPlan:
    """One request's plan in both forms.

    interpreted   the form that the state machine runs node by node
    compiled      the same in regions, once made; None before, and if there is nothing to fuse
    """

    def __init__(
        self,
        graph: NodeGraph,
        context: PassContext,
        kernels: KernelRegistry,
        functions: Functions | None,
        interpreted: Plan,
    ) -> None:
        """`tiered` calls this with the `interpreted` plan."""
        self._graph = graph
        self._context = context
        self._kernels = kernels
        self._functions = functions
        self.learned = RequestTimings(REGION_LIMITS.members, _LOOKS)
        self.interpreted = interpreted
        self.learned.interpreted = interpreted.times
        self.compiled: Plan | None = None
        self._in_place: InPlaceTimes | None = None
        self._never_waits: bool | None = None
        #: An unfinished compilation.
        self._begun: Piecework[None] | None = None

    def choose(self, feeds: Sequence[Any]) -> Plan:
        """Return the plan to run with these values, if plans are compiled at all."""
        learned = self.learned
        if not HOT_RUNS and not learned.is_settled:
            self.compile()
            learned.fed_bytes = 1 << 62
        compiled = self.compiled
        if compiled is None:
            return self.interpreted
        size = 0  # as `_bytes_of`: every step of a hot plan comes here
        for value in feeds:
            if isinstance(value, np.ndarray):
                size += value.nbytes
        if size > _GROWTH * learned.fed_bytes + _SMALL_BYTES:
            return self.interpreted
        times = compiled.times
        if times.slow_iterations > _SLOW_ITERATIONS or times.slow_regions > _SLOW_REGIONS:
            return self._reconsidered(compiled)
        return compiled

    def _reconsidered(self, compiled: Plan) -> Plan:
        """Return the interpreted plan if what was slow in the compiled one can be found or made smaller."""
        learned = self.learned
        if self._has_slow_iterations(compiled):
            # A node in a loop has become worth a thread: find it in the interpreter.
            learned.looks_left -= 1
            return self._anew()
        if self._has_slow_regions(compiled):
            # The members are slower than expected: smaller regions give the host its turn.
            learned.members_max = max(min(learned.members_max, _most_members(compiled)) // 2, _MEMBERS_MIN)
            return self._anew()
        return compiled

    def settled_form(self, feeds: Sequence[Any] | None = None) -> Plan | None:
        """Return the form that `choose` selects, unless a step must be measured first; then None.

        feeds   None to ask before their sizes are known
        """
        learned, compiled = self.learned, self.compiled
        if not learned.is_settled:
            return None
        if feeds is not None and _bytes_of(feeds) > _GROWTH * learned.fed_bytes + _SMALL_BYTES:
            return None
        if compiled is None:
            return self.interpreted
        if self._has_slow_iterations(compiled) or self._has_slow_regions(compiled):
            return None
        return compiled

    def _has_slow_iterations(self, compiled: Plan) -> bool:
        return compiled.times.slow_iterations > _SLOW_ITERATIONS and self.learned.looks_left > 0

    def _has_slow_regions(self, compiled: Plan) -> bool:
        return compiled.times.slow_regions > _SLOW_REGIONS and self.learned.members_max > _MEMBERS_MIN

    @property
    def in_place(self) -> InPlaceTimes | None:
        """Return the results of its steps in place; None if they would wait, or wake others."""
        if self._never_waits is None:
            self._never_waits = never_waits(self.interpreted, self._kernels)
            if self._never_waits:
                self._in_place = InPlaceTimes()
                took = sum(times.microseconds for times in self.interpreted.times.items.values())
                self._in_place.expect(took)
        return self._in_place

    def _anew(self) -> Plan:
        """Discard the compiled form: the interpreter learns again, until the plan is hot again."""
        self.compiled = self._begun = None
        self.learned.begin_again()
        return self.interpreted

    def ran(self, feeds: Sequence[Any], seconds: float) -> bool:
        """Learn from an interpreted step; True when the plan has become hot and should be compiled."""
        learned = self.learned
        size = _bytes_of(feeds)
        if size > _GROWTH * learned.fed_bytes + _SMALL_BYTES and learned.is_settled:
            learned.is_settled = False  # larger than before: find heavy nodes again
            learned.runs = 0
        learned.fed_bytes = max(learned.fed_bytes, size)
        learned.runs += 1
        learned.seconds += seconds
        if learned.is_settled:
            return False
        cost = _COMPILE_SECONDS_A_NODE * self.nodes
        enough = HOT_RUNS if self.nodes < _LARGE_NODES else min(HOT_RUNS, _LARGE_HOT_RUNS)
        if learned.runs >= enough:
            return True
        if learned.seconds <= _HOT_RATIO * cost + 0.002:
            return False
        # Heavy nodes are fused by their times, and a first run also prepares and maps fresh memory; in the
        # first step of a process, libraries as well.
        return learned.runs > 1 or not any(
            item.times.was_heavy or item.times.is_guess for item in self.interpreted.items
        )

    def begin_compiling(self) -> None:
        """Record that `compile` is under way, so that no other step starts it."""
        self.learned.is_settled = True

    def compile(self) -> None:
        """Make the compiled form. May run on another thread; the swap is one assignment."""
        self.begin_compiling()
        with collection_paused():
            at_once(self._compiling())

    def begin_job(self) -> Piecework[None]:
        """Begin `compile`, or continue an unfinished one. The job is this caller's alone.

        A caller that does not finish it calls `leave_job`.
        """
        self.begin_compiling()
        job, self._begun = self._begun, None
        return Piecework(self._compiling()) if job is None else job

    def leave_job(self, job: Piecework[None]) -> None:
        """Let another step continue it."""
        if not job.is_over and self.learned.is_settled and self.compiled is None:
            self._begun = job
            self.learned.is_settled = False

    def _compiling(self) -> Pieces[None]:
        try:
            compiled = yield from self._fused()
        except OpError:
            # A plan that cannot be made of regions runs as before, and reports its fault itself.
            compiled = None
        self.learned.compiled = None if compiled is None else compiled.times
        self.compiled = compiled

    def replay(self, record: Record) -> None:
        """Take the form that a plan of the same request had when its `learned` returned this record."""
        self.compiled = self._begun = None
        self.learned.replay(record)
        if record["is_settled"]:
            self.compile()
            if self.compiled is not None and record["compiled"] is not None:
                self.compiled.times.replay(record["compiled"])

    def reset(self) -> None:
        """Forget all learned times: the plan is as it was made."""
        self.compiled = self._begun = None
        self._in_place = self._never_waits = None
        self.learned.reset()

    def _fused(self) -> Pieces[Plan | None]:
        """Return the plan in regions; None if there is nothing to fuse."""
        items = self.interpreted.items
        hot = HotContext(
            self._context,
            heavy=frozenset(item.name for item in items if item.times.was_heavy),
            costs={item.name: item.times.microseconds for item in items if item.times.microseconds},
            limits=replace(REGION_LIMITS, members=self.learned.members_max),
        )
        graph = yield from heating(self._graph, hot)
        if graph is self._graph:
            return None
        plan = yield from _planning(graph, self._context, self._kernels, self._functions, hot.moved)
        plan.unfused = self.interpreted
        self._hand_down(plan, hot.costs)
        return plan

    def making_whole(self) -> Pieces[Plan]:
        """Return the plan with one region as large as possible, of any length: for threads of their own."""
        hot = HotContext(self._context, limits=WHOLE_LIMITS)
        graph = yield from heating(self._graph, hot)
        if graph is self._graph:
            return self.interpreted
        plan = yield from _planning(graph, self._context, self._kernels, self._functions, hot.moved)
        plan.unfused = self.interpreted
        return plan

    def _hand_down(self, plan: Plan, costs: Mapping[str, float]) -> None:
        """Pass learned times to the items of a compiled plan, and to the members of regions."""
        known = self.interpreted.times.items
        for item in plan.items:
            if item.region is not None:
                units = item.node.attrs["program"].units
                item.times.microseconds = sum(costs.get(unit.name, 0.0) for unit in units)
            elif item.name in known and known[item.name].microseconds:
                item.times.inherit(known[item.name])

    def form(self) -> str:
        """Describe the blocks, claims and lanes that steps use from now on."""
        return form_of(self.interpreted if self.compiled is None else self.compiled)

    def sources(self) -> list[str]:
        """Return the generated source of each region, with the nodes' names."""
        plan = self.compiled
        return [] if plan is None else [item.region.source for item in plan.items if item.region is not None]

    def is_settled(self, plan: Plan) -> bool:
        """Return whether steps use this form from now on, with nothing more to learn first."""
        return plan is self.compiled or (self.learned.is_settled and self.compiled is None)

    @property
    def nodes(self) -> int:
        return len(self.interpreted.items)


def _most_members(plan: Plan) -> int:
    """Return the number of members of the largest region."""
    regions = [item for item in plan.items if item.region is not None and not item.region.is_generator]
    return max((len(item.node.attrs["program"].units) for item in regions), default=REGION_LIMITS.members)


def tiered(
    graph: NodeGraph, context: PassContext, kernels: KernelRegistry, functions: Functions | None
) -> Pieces[TieredPlan]:
    """Make the plan of a request, from a graph that `prepare` has made, in pieces."""
    interpreted = yield from _planning(graph, context, kernels, functions, {})
    if functions is not None:
        for item in interpreted.items:
            if item.kind == Kind.CALL:
                yield from item.call.planning()
    return TieredPlan(graph, context, kernels, functions, interpreted)


def _planning(
    graph: NodeGraph,
    context: PassContext,
    kernels: KernelRegistry,
    functions: Functions | None,
    moved: Mapping[OutputPort, OutputPort],
) -> Pieces[Plan]:
    fetches = context.fetches
    return making_plan(
        graph,
        context.feeds,
        [moved.get(port, port) for port in fetches],
        registry=kernels,
        functions=functions,
        names=fetches,
    )


def _bytes_of(feeds: Sequence[Any]) -> int:
    size = 0
    for value in feeds:
        if isinstance(value, np.ndarray):
            size += value.nbytes
    return size
