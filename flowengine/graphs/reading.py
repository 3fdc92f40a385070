"""The nodes that other nodes need, and the tensors that read a graph's variables."""

from __future__ import annotations

from collections.abc import Iterable

from flowengine.core.dtypes import DType
from flowengine.core.errors import OpError
from flowengine.graphs.graph import Graph
from flowengine.ir.frames import FramePath, assign_frames, output_frame
from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.names import LOOP_COND, MERGE_OPS, NEXT_ITERATION_OPS, SWITCH_OPS


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


def conditional_nodes(graph: NodeGraph) -> set[str]:
    """The nodes that lie in a loop's frame or in one branch of a conditional: a step cannot fetch them."""
    try:
        frames: dict[str, FramePath] = assign_frames(graph)
    except OpError:
        frames = dict.fromkeys(graph.nodes, ())  # a step that reaches the fault says what it is
    found: set[str] = set()
    #: {node: the number of conditionals that it is in}
    depths: dict[str, int] = {}
    for node in graph:
        before = (*(port.node for port in node.inputs), *node.control_inputs)
        depth = max((depths.get(name, 0) for name in before), default=0) + _opens(graph, node)
        if depth > 0:
            depths[node.name] = depth
        frame = frames.get(node.name)
        if depth > 0 or frame is None or output_frame(node, frame):
            found.add(node.name)
    return found


def _opens(graph: NodeGraph, node: Node) -> int:
    """1 for a node that opens a branch of a conditional, -1 for one that closes it, else 0."""
    sources = [graph.nodes[port.node].op for port in node.inputs if port.node in graph.nodes]
    if node.op in SWITCH_OPS:
        return int(LOOP_COND not in sources)
    if node.op in MERGE_OPS:
        return -int(NEXT_ITERATION_OPS.isdisjoint(sources))
    return 0
