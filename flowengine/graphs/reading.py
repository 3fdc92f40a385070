"""The nodes that other nodes need, and the tensors that read a graph's variables."""

from __future__ import annotations

from collections.abc import Iterable

from flowengine.core.dtypes import DType
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import NodeGraph


def readers_of(graph: Graph) -> dict[str, str]:
    """{variable's node: the tensor with its value} of what only reads it."""
    found: dict[str, str] = {}
    for node in graph:
        if node.op == "ReadVariableOp" and not node.control_inputs:
            found.setdefault(node.inputs[0].node, f"{node.name}:0")
    return found


def value_of(graph: Graph, node: str, dtype: DType, readers: dict[str, str]) -> str:
    """The tensor that has a variable's value; where the graph has none, it grows by one."""
    if graph[node].output_types[0].is_ref:
        return f"{node}:0"
    if node not in readers:
        handle = graph.tensor(f"{node}:0")
        readers[node] = graph.ops.ReadVariableOp(handle, dtype=dtype, name=f"{node}/Read/ReadVariableOp").name
    return readers[node]


def needed_by(graph: NodeGraph, names: Iterable[str]) -> set[str]:
    """These nodes and all that they need."""
    waiting = list(names)
    seen = set(waiting)
    while waiting:
        node = graph[waiting.pop()]
        for source in (*(port.node for port in node.inputs), *node.control_inputs):
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return seen


def part_of(graph: Graph, names: Iterable[str]) -> Graph:
    """A graph of what these nodes need, in the order of the graph, with its functions."""
    seen = needed_by(graph, names)
    part = Graph(
        (node for node in graph if node.name in seen),
        registry=graph.registry,
        producer=graph.producer,
        min_consumer=graph.min_consumer,
    )
    part.library = graph.library
    return part
