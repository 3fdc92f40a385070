"""A graph folded by its scopes into few boxes, with the tensors that go from one box to another.

Names of nodes are paths: `dense/kernel/read` lies in the scopes `dense` and `dense/kernel`. A scope is a box
that stands for all its nodes until it is opened. The largest scopes are opened as long as a drawing stays
readable. Where the outermost names are too many already, those that differ by a number alone (`Variable`,
`Variable_1`) share a box, and if that is not enough, the smallest ones share another.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from flowengine.cli.overview import facts_of_port, variables
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.traits import Constant, ExternalValue, GivesVariable, HandsOn, HandsOnEach

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: Boxes that a drawing has at most, unless a signature has more inputs and outputs.
BOXES_MAX: Final = 40
#: The number at the end of a name, which TensorFlow adds to a name that is taken.
_NUMBER: Final = re.compile(r"_\d+$")

INPUT: Final = "input"
OUTPUT: Final = "output"
VARIABLE: Final = "variable"
OP: Final = "op"
SCOPE: Final = "scope"


@dataclass(frozen=True, slots=True)
class FoldedBox:
    """A node, or a scope with its nodes.

    name     of the node; of the scope, or of several that share a box, with a slash at its end
    title    the name to show, such as that of a signature's input
    kind     INPUT, OUTPUT, VARIABLE, OP or SCOPE
    detail   the op, or for an input its dtype and shape, or how many nodes the scope has
    """

    name: str
    title: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class FoldedGraph:
    """Boxes, and between them edges.

    edges      {(source, target): the tensors as `dtype shape`, in order}; by the names of boxes
    controls   (source, target) where nothing but control edges go
    """

    boxes: list[FoldedBox]
    edges: dict[tuple[str, str], list[str]]
    controls: list[tuple[str, str]]


@dataclass(slots=True)
class _FoldableScope:
    """A scope, or several names that share a box, that may be opened: its nodes, and the boxes inside.

    title   the name to show
    """

    path: str
    title: str
    scopes: dict[str, _FoldableScope] = field(default_factory=dict)
    leaves: list[str] = field(default_factory=list)
    size: int = 0


def fold(
    graph: Graph,
    boxes_max: int = BOXES_MAX,
    *,
    inputs: Mapping[str, OutputPort] = MappingProxyType({}),
    outputs: Mapping[str, OutputPort] = MappingProxyType({}),
) -> FoldedGraph:
    """Fold a graph into at most so many boxes.

    inputs, outputs   names of a signature and the tensors that they stand for. With outputs, only nodes that
                      they take values from are in the drawing, and each output has a box of its own

    Constants are left out, as are nodes that only hand a tensor on to others. The inputs and outputs of a
    signature have boxes of their own, even if they alone are more.
    """
    drawing = _ContractedGraph(graph)
    nodes = list(_kept(drawing, outputs))
    where: dict[str, str] = {}
    boxes = []
    titles = {port.node: name for name, port in inputs.items()}
    room = boxes_max - len(outputs)
    tree = _grouped(_tree(nodes), room, {node.name for node in nodes if node.has(ExternalValue)})
    for each in _closed(tree, room):
        if isinstance(each, str):
            where[each] = each
            boxes.append(_box(graph, graph[each], titles.get(each, each)))
        else:
            name = f"{each.path}/"
            where.update((leaf, name) for leaf in _leaves(each))
            boxes.append(
                FoldedBox(name, each.title, SCOPE, f"{each.size} node{'s' if each.size > 1 else ''}")
            )
    edges, controls = _edges(drawing, nodes, where, has_controls=not outputs)
    for name, port in outputs.items():
        source = drawing.origin(port)
        key = f"output {name}"  # a name with a space is no node's
        boxes.append(FoldedBox(key, name, OUTPUT, drawing.described(source)))
        if source.node in where:
            edges[where[source.node], key] = [drawing.described(source)]
    return FoldedGraph(boxes, edges, controls)


class _ContractedGraph:
    """A graph without the nodes that only hand tensors on."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._shapes = {each.name: f"{each.dtype} {each.shape}" for each in variables(graph)}

    def origin(self, port: OutputPort) -> OutputPort:
        """The tensor that nodes hand on as this one."""
        node = self.graph[port.node]
        while self.hands_on(node):
            port = node.inputs[port.slot]
            node = self.graph[port.node]
        return port

    @staticmethod
    def hands_on(node: Node) -> bool:
        """Whether a node's outputs are its inputs, and it does nothing else."""
        return bool(node.inputs) and (node.has(HandsOn) or node.has(HandsOnEach))

    def described(self, port: OutputPort) -> str:
        """The dtype and shape of a tensor; of a variable's handle those of its value."""
        facts = facts_of_port(self.graph, port)
        return self._shapes.get(port.node, f"{facts.dtype} {facts.shape}")


def _kept(drawing: _ContractedGraph, outputs: Mapping[str, OutputPort]) -> Iterator[Node]:
    """The nodes that are drawn, in the order of the graph."""
    graph = drawing.graph
    used = {port.node for node in graph for port in node.inputs}
    if outputs:
        left = [drawing.origin(port).node for port in outputs.values()]
        needed = set(left)
        while left:
            for port in graph[left.pop()].inputs:
                if (name := drawing.origin(port).node) not in needed:
                    needed.add(name)
                    left.append(name)
        yield from (node for node in graph if node.name in needed and not node.has(Constant))
        return
    for node in graph:
        if not (node.has(Constant) or (drawing.hands_on(node) and node.name in used)):
            yield node


def _tree(nodes: Iterable[Node]) -> _FoldableScope:
    root = _FoldableScope("", "")
    for node in nodes:
        scope = root
        *outer, _ = node.name.split("/")
        for part in outer:
            scope.size += 1
            path = f"{scope.path}/{part}" if scope.path else part
            scope = scope.scopes.setdefault(part, _FoldableScope(path, f"{path}/"))
        scope.size += 1
        scope.leaves.append(node.name)
    return root


def _grouped(root: _FoldableScope, boxes_max: int, inputs: Set[str]) -> _FoldableScope:
    """Put outermost names that are too many into common boxes, those of inputs last."""
    if len(root.leaves) + len(root.scopes) <= boxes_max:
        return root
    groups: dict[tuple[str, bool], list[_FoldableScope | str]] = {}
    members: list[_FoldableScope | str] = [*root.leaves, *root.scopes.values()]
    for each in members:
        name = each if isinstance(each, str) else each.path
        key = (name, True) if name in inputs else (_NUMBER.sub("", name), False)
        groups.setdefault(key, []).append(each)
    outer = [
        alike[0] if len(alike) == 1 else _common(f"{stem}_*", alike) for (stem, _), alike in groups.items()
    ]
    if len(outer) > boxes_max:
        outer.sort(key=lambda each: (each not in inputs, -1) if isinstance(each, str) else (True, -each.size))
        kept = max(boxes_max - 1, 0)
        outer = [*outer[:kept], _common("*", outer[kept:])]
    return _common("", outer)


def _common(title: str, members: Iterable[_FoldableScope | str]) -> _FoldableScope:
    """Return a box for scopes and nodes; no scope has its path, as no name has a star."""
    box = _FoldableScope(title, title)
    for each in members:
        if isinstance(each, str):
            box.leaves.append(each)
        else:
            box.scopes[each.path] = each
        box.size += 1 if isinstance(each, str) else each.size
    return box


def _closed(root: _FoldableScope, boxes_max: int) -> list[_FoldableScope | str]:
    """Open the largest scopes first; return the scopes that stay closed and the nodes outside of them."""
    shown: list[_FoldableScope | str] = [*root.leaves]
    closed = [(-scope.size, scope.path, scope) for scope in root.scopes.values()]
    heapq.heapify(closed)
    left = boxes_max - len(shown) - len(closed)
    while closed:
        _, _, scope = heapq.heappop(closed)
        more = len(scope.leaves) + len(scope.scopes) - 1
        if more > left:
            shown.append(scope)
            continue
        left -= more
        shown += scope.leaves
        for inner in scope.scopes.values():
            heapq.heappush(closed, (-inner.size, inner.path, inner))
    return shown


def _leaves(scope: _FoldableScope) -> Iterator[str]:
    yield from scope.leaves
    for inner in scope.scopes.values():
        yield from _leaves(inner)


def _box(graph: Graph, node: Node, title: str) -> FoldedBox:
    if node.has(ExternalValue):
        facts = facts_of_port(graph, OutputPort(node.name, 0))
        return FoldedBox(node.name, title, INPUT, f"{facts.dtype} {facts.shape}")
    return FoldedBox(node.name, title, VARIABLE if node.has(GivesVariable) else OP, node.op)


def _edges(
    drawing: _ContractedGraph, nodes: Iterable[Node], where: Mapping[str, str], *, has_controls: bool
) -> tuple[dict[tuple[str, str], list[str]], list[tuple[str, str]]]:
    tensors: dict[tuple[str, str], dict[OutputPort, None]] = {}
    controls: dict[tuple[str, str], None] = {}
    for node in nodes:
        target = where[node.name]
        for port in map(drawing.origin, node.inputs):
            if (source := where.get(port.node, target)) != target:
                tensors.setdefault((source, target), {})[port] = None
        for name in node.control_inputs if has_controls else ():
            if (source := where.get(name, target)) != target:
                controls[source, target] = None
    edges = {pair: [drawing.described(port) for port in ports] for pair, ports in tensors.items()}
    return edges, [pair for pair in controls if pair not in edges]


__all__ = ["BOXES_MAX", "INPUT", "OP", "OUTPUT", "SCOPE", "VARIABLE", "FoldedBox", "FoldedGraph", "fold"]
