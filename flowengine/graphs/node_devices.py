"""Which device a node asks for: what the scopes around it say, from the innermost out.

A scope is a name, of which an inner one fills its open parts, or a function that is given the operation with
the device found so far, and says which it asks for instead. The scopes around a function fill what it leaves
open. None ends the search: what is around it says nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flowengine.graphs.scopes import filled
from flowengine.graphs.tensor import Operation
from flowengine.ir.graph import Node

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


def decided(graph: Graph, node: Node) -> Node:
    """A node of the graph on the device that the functions around it choose, and the scopes around those."""
    for function, around in graph.scopes.deciders:
        chosen = function(Operation(graph, node.name))
        device = filled("" if chosen is None else chosen, around)
        if device != node.device:
            node = graph.put(replace(node, device=device))
    return node
