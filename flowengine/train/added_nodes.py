"""The nodes by which a saver reaches variables at a target: added to the session's graph when needed.

A saver of a local session goes to the variables directly. At a target only steps reach them, so a saver that
was made without nodes adds its own, as `Saver.add_to` does, and runs them. The session sends them to the
target with its next step. One graph has one set of such nodes for the same variables, however many savers,
sessions and loops use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.saving import SaverNodes, add_saver_nodes
from flowengine.ir.graph import NodeGraph
from flowengine.train.saveables import Saveable

#: {graph: {what is saved: the nodes}}
_added: Final[WeakKeyDictionary[NodeGraph, dict[tuple[Saveable, ...], SaverNodes]]] = WeakKeyDictionary()


class AddedNodes:
    """Finds, or adds, the nodes of one saver in the graph of a session at a target."""

    def __init__(self, find: Callable[[NodeGraph], Sequence[Saveable]]) -> None:
        """`find` returns what the saver saves of a graph."""
        self._find = find
        #: The nodes that were found in a graph, for as long as it does not grow.
        self._known: tuple[NodeGraph, int, SaverNodes] | None = None

    def of(self, graph: NodeGraph) -> SaverNodes:
        """Return the nodes; variables that the graph got in the meantime have theirs, too.

        Raises InvalidArgumentError for a graph that no nodes can be added to, or that has no variable.
        """
        known = self._known
        if known is not None and known[0] is graph and known[1] == graph.version:
            return known[2]
        saveables = tuple(self._find(graph))
        of_graph = _added.setdefault(graph, {})
        nodes = of_graph.get(saveables)
        if nodes is None:
            if not isinstance(graph, Graph):
                raise InvalidArgumentError(
                    "this session's variables are at its target, where only nodes of the graph reach them, "
                    f"and none can be added to a {type(graph).__name__}: use a saver whose nodes the graph "
                    "has, `Saver.of_nodes(...)` or `Saver.from_meta_graph(...)`"
                )
            # The scopes that the caller has opened must not apply to these nodes.
            with graph.name_scope(None), graph.device(None), graph.control_dependencies(None):
                nodes = of_graph[saveables] = add_saver_nodes(graph, saveables)
        self._known = graph, graph.version, nodes
        return nodes


__all__ = ["AddedNodes"]
