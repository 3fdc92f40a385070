"""Plan: the data that a step needs. Made once for (graph version, feeds, fetches, targets).

`planner.make_plan` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flowengine.core.deferred_parts import DEFERRED_MIN, current_parts
from flowengine.ir.frames import FramePath
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.resources.function_calls import FunctionCaller
from flowengine.runtime.lanes import HEAVY_MICROSECONDS
from flowengine.runtime.planning.items import KIND_NAMES, Edge, Item, Kind, MergeEdge, StaticFrame
from flowengine.runtime.planning.offloaded_run_items import OffloadedItems
from flowengine.runtime.planning.timings import PlanTimes
from flowengine.runtime.planning.variable_handles import Handles
from flowengine.runtime.resumable_blocks import OneRegion

#: Kinds that take time of their own: kernels and regions.
_TIMED: Final = frozenset({Kind.UNARY, Kind.BINARY, Kind.GENERAL, Kind.REGION})


@dataclass(slots=True)
class Plan:
    """The prepared form of a request. Immutable except for learned times; shared by all its steps.

    root         the static root frame, with templates
    items        every item, in construction order
    sources      the items that are ready at once
    feeds        for each fed port in order: its plain edges and its edges to Merges
    constants    the same for the Consts that feed Merges, with their values
    fetches      for each fetch in order: where its value lies among the root's entries, and the port
    feed_fetches {position among the fetches: position among the feeds} of values that are fed and fetched
    caller       calls the functions of the graph for resources that outlive the step
    """

    root: StaticFrame
    items: list[Item]
    sources: list[Item]
    feeds: list[tuple[tuple[Edge, ...], tuple[MergeEdge, ...]]]
    constants: list[tuple[tuple[Edge, ...], tuple[MergeEdge, ...], Any]]
    fetches: list[tuple[int, int, OutputPort]]
    graph: NodeGraph
    frames: dict[FramePath, StaticFrame] = field(default_factory=dict)
    #: The plan of the same graph before its nodes were fused, if they were.
    unfused: Plan | None = None
    caller: FunctionCaller | None = None
    handles: Handles = field(init=False)
    #: The learned times of its items.
    times: PlanTimes = field(init=False)
    #: The plan as a function of its feeds, if it is one region.
    one_region: OneRegion | None = field(init=False)
    _offloaded_items: OffloadedItems | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.handles = Handles(self.sources)
        self.times = PlanTimes({item.name: item.times for item in self.items if item.kind in _TIMED})
        self.one_region = OneRegion.of(self)

    def __del__(self) -> None:
        """Separate the items, which refer to each other, so that all memory is freed at once.

        Without it a closed session's plans would stay until the cyclic collector runs. Steps hold the plan
        that they run. Within a `DeferredParts` a large plan leaves its parts there.
        """
        deferred = current_parts() if len(self.items) >= DEFERRED_MIN else None
        if hasattr(self, "handles"):
            self.handles.clear()
            if deferred is not None:
                deferred.add([*self.times.items.values()])
        for frame in (self.root, *self.frames.values()):
            frame.part()
        if deferred is not None:
            deferred.add([*self.graph.nodes.values()])
            deferred.add(self.items, Item.part)
            return
        for item in self.items:
            item.part()

    @property
    def offloaded_items(self) -> OffloadedItems:
        """Return the items that an offloaded run may run, found on first use."""
        if self._offloaded_items is None:
            self._offloaded_items = OffloadedItems(self.items, self.root)
        return self._offloaded_items


def kernel_summary(plan: Plan) -> Mapping[str, int]:
    """Return {kind of item: count}, for `explain`."""
    counts: dict[str, int] = {}
    for item in plan.items:
        name = KIND_NAMES[item.kind]
        counts[name] = counts.get(name, 0) + 1
    return counts


def form_of(plan: Plan) -> str:
    """Return the form of a plan as text: for each item its block or op, and where it runs.

    Steps of two plans with equal texts run alike.
    """
    has_offloaded_runs = plan.offloaded_items.are_worth_it()
    lines = []
    for item in plan.items:
        lane = _lane(item, plan, has_offloaded_runs=has_offloaded_runs)
        lines.append(f"{item.name}: {_described(item)}; {lane}")
    return "\n".join(lines) or "nothing to run"


def _described(item: Item) -> str:
    if item.kind == Kind.REGION:
        names = [unit.name for unit in item.node.attrs["program"].units]
        return f"block of {len(names)}: {', '.join(names)}"
    members = getattr(item.node.attrs.get("program"), "names", None)
    if members is not None:
        return f"{item.node.op} of {len(members)}: {', '.join(sorted(members))}"
    return item.node.op


def _lane(item: Item, plan: Plan, *, has_offloaded_runs: bool) -> str:
    """Return the lane of the item if it takes as long as it last did."""
    if item.kind > Kind.GENERAL:
        return {Kind.ASYNC: "a task", Kind.REGION: "inline"}.get(item.kind, KIND_NAMES[item.kind])
    if item.times.microseconds <= HEAVY_MICROSECONDS:
        return "inline"
    return "an offloaded run" if has_offloaded_runs and item in plan.offloaded_items.free else "a thread"
