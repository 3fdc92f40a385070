"""Prepared starts: the state of a plan's steps before they begin, computed once and reused for each step.

The items that are ready at the start, the inputs that each item waits for once all feeds are delivered, and
the place of each fed value depend on the plan alone. So a plan prepares its start once. The tables of a step
that ended well are returned to it, as they were when the step began, and the next step uses them again: to
begin is to write the fed values into them.

A plan whose feeds or constants go to Merges starts through the state machine instead, which handles Merges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowengine.core.arrays import DEAD
from flowengine.core.errors import InvalidArgumentError
from flowengine.runtime.frames import IterationState
from flowengine.runtime.planning.items import Item, Kind, StaticFrame
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.receives import Key
from flowengine.runtime.state import ExecutorState
from flowengine.transport.tensors.routes import Route


class PreparedStart:
    """The start of all steps that begin with the same templates: see the module."""

    __slots__ = (
        "_entries",
        "_idle",
        "_is_simple",
        "_items",
        "_pending",
        "_places",
        "_plan_start",
        "_receives",
        "_root",
        "routes",
    )

    def __init__(self, plan: Plan, root: StaticFrame, sources: Sequence[Item], *, at_edges: bool) -> None:
        """
        root, sources   the templates, and the items that wait for nothing: see `Plan.handles`
        at_edges        whether the Recvs of a step wait, all at once, at these `routes`
        """
        self._root = root
        self._plan_start = (sources, plan.feeds, plan.constants)
        self._is_simple = not plan.constants and not any(merges for _, merges in plan.feeds)
        self._entries = root.entries[:]
        self._pending = pending = root.pending[:]
        #: For each feed the entries that its value is written to.
        self._places = [tuple(entry for _, entry, _ in edges) for edges, _ in plan.feeds]
        ready = list(sources)
        for edges, _ in plan.feeds:
            for local, _, consumer in edges:
                pending[local] -= 1
                if not pending[local]:
                    ready.append(consumer)
        #: The Recvs that wait at their edges, and the edges.
        self._receives = [item for item in ready if item.kind == Kind.RECEIVE]
        self.routes: Mapping[Route, Key] = {item.route: (item.order, 0) for item in self._receives}
        if not at_edges or not self._is_simple or len(self.routes) < len(self._receives):
            # Two that wait for one tensor do so one by one.
            self._receives, self.routes = [], {}
        ready = [item for item in ready if item not in self._receives]
        #: The items that are ready once all feeds are there, in the order in which they run: a heap, too.
        self._items = sorted(ready, key=lambda item: item.order)
        #: The tables of a step that has ended, for the next one.
        self._idle: list[ExecutorState] = []

    def begin(self, values: Sequence[Any]) -> ExecutorState:
        """Return the state of a step that begins with one value for each feed."""
        if not self._is_simple:
            sources, ports, constants = self._plan_start
            state = ExecutorState(self._root)
            state.start(sources, ports, values, constants)
            return state
        if not self._idle:
            state = ExecutorState(self._root)
            state.first = tuple((item.order, 0, item, state.root) for item in self._items)
            state.awaited = {(item.order, 0): (item, state.root) for item in self._receives}
            self.take_back(state)
        state = self._idle.pop()
        entries = state.root.entries
        for places, value in zip(self._places, values, strict=True):
            for place in places:
                entries[place] = value
        return state

    def take_back(self, state: ExecutorState) -> None:
        """Keep the tables of a step that ended well, if nobody else holds any part of them.

        Those of steps with loops, calls or dead tokens are not kept, nor those that a Merge was fed through.
        """
        root = state.root
        if self._is_simple and not (self._idle or state.serial or root.dead or root.dead_inputs):
            root.entries[:] = self._entries
            root.pending[:] = self._pending
            state.ready[:] = state.first
            root.outstanding = outstanding = len(state.first) + len(state.awaited)
            state.done = not outstanding
            self._idle.append(state)


def start_of(plan: Plan, root: StaticFrame, sources: Sequence[Item], *, at_edges: bool) -> PreparedStart:
    """Prepare the start of the steps of a plan that begin with these templates, and keep it with them."""
    start = PreparedStart(plan, root, sources, at_edges=at_edges)
    if at_edges:
        root.edge_start = start
    else:
        root.start = start
    return start


def take_results(plan: Plan, root: IterationState) -> list[Any]:
    """Return the fetched values of a plan whose root iteration is done, moved out of it.

    Raises InvalidArgumentError for a value that is dead or never came.
    """
    values = []
    for local, entry, port in plan.fetches:
        value = root.entries[entry]
        root.entries[entry] = None
        if value is DEAD:
            reason = (
                "the branch that would produce it was not taken"
                if root.dead is not None and local in root.dead
                else "it was never produced"
            )
            raise InvalidArgumentError(f"Retval: tensor '{port}' has no value: {reason}")
        values.append(value)
    return values


__all__ = ["PreparedStart", "start_of", "take_results"]
