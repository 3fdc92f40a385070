"""Variables looked up once, not once a step.

A node that names a variable (`VariableV2`, `VarHandleOp`) returns the same object in every step, until a
resource is removed: 20 such nodes cost a step of small kernels a tenth of its time. After a successful step,
their results are written into the templates from which steps start, like a Const's value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.ir.traits import GivesVariable
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning.items import Item, Kind, StaticFrame


class Handles:
    """The look-ups of one plan, and the root frame's templates with their results once these are known.

    has_any   whether the plan looks anything up
    """

    __slots__ = ("_generation", "_items", "_resources", "_root", "_sources", "has_any")

    def __init__(self, sources: Sequence[Item]) -> None:
        """sources: the items of the root frame that wait for nothing."""
        self._items = [item for item in sources if _is_lookup(item)]
        self.has_any = bool(self._items)
        self._resources: ResourceManager | None = None
        self._generation = -1
        self._root: StaticFrame | None = None
        self._sources: list[Item] = []

    def start(
        self, root: StaticFrame, sources: list[Item], resources: ResourceManager
    ) -> tuple[StaticFrame, list[Item]]:
        """Return the start of a step: the templates, and the items that are ready at once."""
        if self._resources is resources and self._generation == resources.generation:
            assert self._root is not None
            return self._root, self._sources
        return root, sources

    def keep(self, root: StaticFrame, sources: list[Item], context: KernelContext, generation: int) -> None:
        """Remember the results of the look-ups; a step in which all of them ran has just ended well.

        generation   of the resources when the step began: resources that it removed are not looked up again
        """
        resources = context.resources
        if not self.has_any or generation != resources.generation:
            return
        if self._resources is resources and self._generation == generation:
            return
        known = StaticFrame(root.path, root.parent)
        known.items, known.enters, known.parallel_iterations = (
            root.items,
            root.enters,
            root.parallel_iterations,
        )
        known.pending, known.entries = root.pending[:], root.entries[:]
        looked_up = set(self._items)
        ready = [item for item in sources if item not in looked_up]
        for item in self._items:
            value: Any = item.function(**({"ctx": context} if item.takes_context else {}))
            consumers: list[Item] = []
            for local, entry, consumer in item.edges[0]:
                known.entries[entry] = value
                known.pending[local] -= 1
                if not known.pending[local]:
                    consumers.append(consumer)
            for _, consumer in item.control or ():
                known.pending[consumer.local] -= 1
                if not known.pending[consumer.local]:
                    consumers.append(consumer)
            ready += consumers
        self.clear()
        self._resources, self._generation = resources, resources.generation
        self._root, self._sources = known, ready

    def clear(self) -> None:
        """Forget the results of look-ups. Steps that started from them go on."""
        if self._root is not None:
            root = self._root  # what follows refers to the templates
            root.root_state = root.start = root.edge_start = None
        self._resources, self._generation = None, -1
        self._root, self._sources = None, []


def _is_lookup(item: Item) -> bool:
    return (
        item.node.has(GivesVariable)
        and item.kind == Kind.GENERAL
        and item.merge_edges is None
        and item.passing is None
        and item.control_merges is None
    )
