"""A function's body that is one region is called like a function: no frame, no counts, no ready items.

    While(body = {one region})  ->  values = region(values), round after round

Most bodies are: all their nodes are synchronous, and fuse into one region without a loop. What such a body
would go through in the state machine, a frame to make, inputs to deliver, an item to make ready and a frame
to end, takes 8 us; a call takes one. Any other body goes through the state machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flowengine.core.arrays import DEAD
from flowengine.resources.variable import Variable
from flowengine.runtime.items import Item, Kind

if TYPE_CHECKING:
    from flowengine.runtime.plan import Plan


class OneRegion:
    """A plan that is one region, ready to be called with the values of its feeds.

    item   the region, for the names in errors
    """

    __slots__ = ("_arguments", "_constants", "_fills", "_places", "item")

    def __init__(
        self,
        item: Item,
        arguments: Sequence[Any],
        fills: Sequence[tuple[int, int]],
        constants: Sequence[Any],
        places: Sequence[int],
    ) -> None:
        self.item = item
        #: The region's arguments, with those that are constants in place.
        self._arguments = list(arguments)
        #: (position among the arguments, feed that goes there)
        self._fills = tuple(fills)
        self._constants = tuple(constants)
        #: For each result where it lies in the region's outputs, the feeds and the constants, in a row.
        self._places = tuple(places)

    @classmethod
    def of(cls, plan: Plan) -> OneRegion | None:
        """The plan in this form, or None for one that is more than a region."""
        item = plan.items[0] if len(plan.items) == 1 else None
        if item is None or item.kind != Kind.REGION or item.region.is_generator:
            return None
        if item.has_rare_edges or item.dereference or plan.constants:
            return None
        root = plan.root
        fills: list[tuple[int, int]] = []
        #: {a place among the root's entries: what comes to lie there}
        places: dict[int, int] = {}
        for slot, edges in enumerate(item.edges):
            for _, entry, _ in edges:
                places[entry] = slot
        outputs = item.num_outputs
        for feed, (edges, merges) in enumerate(plan.feeds):
            if merges:
                return None
            for _, entry, consumer in edges:
                if consumer is item:
                    fills.append((entry - item.start, feed))
                else:
                    places[entry] = outputs + feed
        if root.pending[item.local] != len(fills):
            return None
        constants: list[Any] = []
        for _, entry, _ in plan.fetches:
            if entry not in places:
                if root.entries[entry] is DEAD:
                    return None
                places[entry] = outputs + len(plan.feeds) + len(constants)
                constants.append(root.entries[entry])
        arguments = root.entries[item.start : item.stop]
        return cls(item, arguments, fills, constants, [places[entry] for _, entry, _ in plan.fetches])

    def is_free(self, values: Sequence[Any], step: object) -> bool:
        """Whether no thread of another step is writing what the region may read or write."""
        if self.item.mutates:
            for value in values:
                if type(value) is Variable and value.writer is not None and value.writer is not step:
                    return False
        return True

    def call(self, values: Sequence[Any], context: Any) -> list[Any]:
        """The results for these values of the feeds; raises what a member raises."""
        arguments = self._arguments[:]
        for position, feed in self._fills:
            arguments[position] = values[feed]
        item = self.item
        outputs = item.region.call(arguments, context)
        if item.single:
            pool = (outputs, *values, *self._constants)
        elif outputs is None:
            pool = (*values, *self._constants)
        else:
            pool = (*outputs, *values, *self._constants)
        return [pool[place] for place in self._places]


__all__ = ["OneRegion"]
