"""The device that a node requests: the scopes around it determine it, from the innermost to the outermost.

A scope is a name, which fills the parts that inner scopes leave open, or a function, which gets the operation
with the device found so far and returns another one. The scopes around a function fill the parts that its
result leaves open. None ends the search: outer scopes do not count.
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
    """A node of the graph on the device that scopes and functions around it choose, or that it goes with."""
    for function, around in graph.scopes.deciders:
        chosen = function(Operation(graph, node.name))
        device = filled("" if chosen is None else chosen, around)
        if device != node.device:
            node = graph.put(replace(node, device=device))
    beside = [graph[other].device for other in graph.scopes.colocation if other in graph.nodes]
    device = next(filter(None, beside), node.device)
    return node if device == node.device else graph.put(replace(node, device=device))
