"""Plan: what a step needs and nothing else. Made once for (graph version, feeds, fetches, targets).

`planner.make_plan` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flowengine.ir.frames import FramePath
from flowengine.ir.graph import Graph, OutputPort
from flowengine.runtime.bodies import OneRegion
from flowengine.runtime.handles import Handles
from flowengine.runtime.items import KIND_NAMES, Edge, Item, MergeEdge, StaticFrame
from flowengine.runtime.stretch_items import StretchItems


@dataclass(slots=True)
class Plan:
    """Immutable but for what its items learn; shared by all steps that run it, at the same time too.

    root         the static root frame, with templates
    items        every item, in construction order
    sources      the items that are ready at once
    feeds        for each fed port in order: its plain edges and its edges to Merges
    constants    the same for the Consts that feed Merges, with their values
    fetches      for each fetch in order: where its value lies among the root's entries, and the port
    feed_fetches {position among the fetches: position among the feeds} of what is fed and fetched
    """

    root: StaticFrame
    items: list[Item]
    sources: list[Item]
    feeds: list[tuple[tuple[Edge, ...], tuple[MergeEdge, ...]]]
    constants: list[tuple[tuple[Edge, ...], tuple[MergeEdge, ...], Any]]
    fetches: list[tuple[int, int, OutputPort]]
    graph: Graph
    frames: dict[FramePath, StaticFrame] = field(default_factory=dict)
    #: How often a region without a loop took longer than a slice: it should have been smaller.
    slow_regions: int = 0
    #: How often one iteration of a region's loop held the host for long: it has a node worth a thread.
    slow_iterations: int = 0
    #: What `graph` was before its nodes were fused, where they were.
    unfused: Graph | None = None
    handles: Handles = field(init=False)
    #: The plan as a function of its feeds, if it is one region.
    one_region: OneRegion | None = field(init=False)
    _stretch_items: StretchItems | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.handles = Handles(self.sources)
        self.one_region = OneRegion.of(self)

    @property
    def stretch_items(self) -> StretchItems:
        """What a stretch may run; found when it is first asked for."""
        if self._stretch_items is None:
            self._stretch_items = StretchItems(self.items, self.root)
        return self._stretch_items


def kernel_summary(plan: Plan) -> Mapping[str, int]:
    """{kind of item: how many}, for `explain`."""
    counts: dict[str, int] = {}
    for item in plan.items:
        name = KIND_NAMES[item.kind]
        counts[name] = counts.get(name, 0) + 1
    return counts
