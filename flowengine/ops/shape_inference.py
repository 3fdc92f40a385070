"""Infers the shapes of a graph's tensors, as far as the graph alone tells them.

A `ShapeInference` follows one graph that may grow: `update` takes in nodes however they came (an imported
graph in any order, loops included), `add` one whose inputs are all there.

    shapes = ShapeInference(graph)
    shapes.update()
    shapes.shape(OutputPort("y", 0))

What it says is never more than the truth: an output of an opaque node, of a node whose shapes contradict
each other (listed in `faults`) or of a loop variable that changes its shape is unknown as far as need be.

Loops are solved from below. A Merge first believes its Enter; when the shape that comes around the back
edge is another, the Merge relaxes to what both are instances of, and whatever depends on it is inferred
again. A shape can relax only rank + 1 times, so this ends.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.ir.attrs import AttrValue
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import MERGE_OPS, NEXT_ITERATION_OPS
from flowengine.ops.constant_values import ConstantValues
from flowengine.ops.value_functions import CONTRADICTIONS

#: Ops whose output refers to the same resource as their input of the same number.
_PASS_HANDLE: Final = frozenset(
    [
        "Identity",
        "RefIdentity",
        "IdentityN",
        "Enter",
        "RefEnter",
        "Exit",
        "RefExit",
        "NextIteration",
        "RefNextIteration",
        "Switch",
        "RefSwitch",
        "Merge",
        "RefMerge",
        "Snapshot",
        "StopGradient",
        "FakeQueue",
    ]
)
#: Nodes that are looked at before the inference may be interrupted: about a millisecond's work.
_NODES_A_PIECE: Final = 256
#: A longer way to a resource is not followed; a cycle of handles ends here.
_HANDLE_HOPS_MAX: Final = 1000


class NodeContext:
    """The context of one node for its shape function: see `ir.opdef.ShapeContext`."""

    __slots__ = ("_inference", "_inputs", "attrs", "num_inputs", "num_outputs", "output_types", "producer")

    def __init__(self, inference: ShapeInference, node: Node) -> None:
        self._inference = inference
        self._inputs = node.inputs
        self.attrs: Mapping[str, AttrValue] = node.attrs
        self.num_inputs = len(node.inputs)
        self.num_outputs = len(node.output_types)
        self.output_types: Sequence[DType] = node.output_types
        self.producer = inference.producer

    def input(self, index: int) -> TensorShape:
        return self._inference.shape(self._inputs[index])

    def input_value(self, index: int) -> Any | None:
        return self._inference.values.value(self._inputs[index])

    def input_as_shape(self, index: int) -> TensorShape:
        return self._inference.values.as_shape(self._inputs[index])

    def handle_shape(self, index: int) -> TensorShape:
        return self._inference.handle_shape(self._inputs[index])

    def handle_source(self, index: int) -> Node | None:
        return self._inference.handle_source(self._inputs[index])


class ShapeInference:
    """The shapes of one graph. Not thread-safe; owned by who owns the graph."""

    def __init__(self, graph: NodeGraph) -> None:
        # Not the graph itself: it keeps its inference, and neither would be freed before the collector runs.
        #: {name: Node} of the graph, which may grow.
        self.nodes = graph.nodes
        #: The producer version of the GraphDef that the graph was read from.
        self.producer = graph.producer
        self.values = ConstantValues(self)
        #: {node name: why its shapes contradict each other}, of nodes taken in by `update`.
        self.faults: dict[str, str] = {}
        #: {node: {output: the shape that a user says it has}}
        self.refined: dict[str, dict[int, TensorShape]] = {}
        #: {a loop's Merge: the shape that its variable is declared to have in every iteration}
        self.relaxed: dict[str, TensorShape] = {}
        self._shapes: dict[str, Sequence[TensorShape]] = {}
        #: Names in the order in which their shapes were inferred.
        self._order: list[str] = []

    def shape(self, port: OutputPort) -> TensorShape:
        """Return the shape of an output, as far as it is known."""
        shapes = self._shapes.get(port.node)
        return UNKNOWN_SHAPE if shapes is None or port.slot >= len(shapes) else shapes[port.slot]

    @property
    def order(self) -> Sequence[str]:
        """The names of the nodes taken in so far, each after its inputs, back edges aside."""
        return self._order

    def shapes(self, node: str) -> Sequence[TensorShape]:
        """The shapes of all outputs of a node; empty for an opaque or unknown one."""
        return self._shapes.get(node, ())

    def handle_source(self, port: OutputPort) -> Node | None:
        """The node that made a resource or reference, through Identity, Enter and the like."""
        for _ in range(_HANDLE_HOPS_MAX):
            node = self.nodes.get(port.node)
            if node is None or node.op not in _PASS_HANDLE:
                return node
            if not node.inputs:
                return None
            port = node.inputs[port.slot if node.op == "IdentityN" else 0]
        return None

    def handle_shape(self, port: OutputPort) -> TensorShape:
        """The shape of the variable to which a resource handle refers."""
        node = self.handle_source(port)
        shape = UNKNOWN_SHAPE
        if node is not None and node.op == "VarHandleOp":
            shape = node.attrs["shape"]
        elif node is not None and node.op == "_VarHandlesOp":
            shape = node.attrs["shapes"][port.slot]
        return shape

    def add(self, node: Node) -> None:
        """Take in a node all of whose inputs are in; InvalidArgumentError where its shapes contradict."""
        self._shapes[node.name] = self._infer(node)
        self._order.append(node.name)

    def check(self, node: Node) -> None:
        """InvalidArgumentError where the shapes of a node, in the graph or to be put there, contradict."""
        self._infer(node)

    def update(self) -> None:
        """Take in every node of the graph that is not in yet. O(1) if there is none."""
        if len(self._shapes) != len(self.nodes):
            at_once(self.updating())

    def updating(self) -> Pieces[None]:
        """As `update`, in pieces. The graph must not change meanwhile."""
        pending = {name: node for name, node in self.nodes.items() if name not in self._shapes}
        start = len(self._order)
        back_edges = yield from self._adding_in_order(pending)
        if back_edges:
            self._settle(back_edges, start)

    def replaced(self, merge: str) -> None:
        """Tell that a Merge has got its back edge; whatever that changes is inferred again."""
        if list(self._infer_leniently(self.nodes[merge])) != list(self._shapes[merge]):
            self._settle([merge], self._order.index(merge))

    def _adding_in_order(self, pending: Mapping[str, Node]) -> Pieces[list[str]]:
        """Infer nodes after their inputs, back edges aside; returns the Merges that have such."""
        waiting: dict[str, int] = {}
        consumers: dict[str, list[str]] = {}
        ready: deque[Node] = deque()
        merges: list[str] = []
        for node in pending.values():
            count = 0
            for port in node.inputs:
                source = pending.get(port.node)
                if source is None:
                    continue
                if source.op in NEXT_ITERATION_OPS and node.op in MERGE_OPS:
                    merges.append(node.name)
                    continue
                consumers.setdefault(port.node, []).append(node.name)
                count += 1
            if count:
                waiting[node.name] = count
            else:
                ready.append(node)
        while ready:
            node = ready.popleft()
            self._shapes[node.name] = self._infer_leniently(node)
            self._order.append(node.name)
            if not len(self._order) % _NODES_A_PIECE:
                yield
            for consumer in consumers.get(node.name, ()):
                waiting[consumer] -= 1
                if not waiting[consumer]:
                    del waiting[consumer]
                    ready.append(pending[consumer])
        for name in waiting:
            # A cycle that is no loop, or behind one: validation names it, nothing is known of it here.
            self._shapes[name] = (UNKNOWN_SHAPE,) * len(pending[name].output_types)
            self._order.append(name)
        return merges

    def _settle(self, merges: Sequence[str], start: int) -> None:
        """Relax from these Merges until nothing changes; only nodes after `start` can be touched."""
        position = {name: index for index, name in enumerate(self._order[start:], start)}
        consumers: dict[str, list[str]] = {}
        for name in position:
            for port in self.nodes[name].inputs:
                if port.node in position:
                    consumers.setdefault(port.node, []).append(name)
        queue = sorted({position[name] for name in merges})
        queued = set(queue)
        while queue:
            index = heapq.heappop(queue)
            queued.discard(index)
            name = self._order[index]
            node = self.nodes[name]
            before = self._shapes[name]
            after = self._infer_leniently(node)
            if len(before) == len(after):
                after = [old.relax_with(new) for old, new in zip(before, after, strict=True)]
            self._shapes[name] = after
            changed_value = self.values.forget(name)
            if changed_value or list(before) != list(after):
                for consumer in consumers.get(name, ()):
                    where = position[consumer]
                    if where not in queued:
                        queued.add(where)
                        heapq.heappush(queue, where)

    def _infer_leniently(self, node: Node) -> Sequence[TensorShape]:
        try:
            shapes = self._infer(node)
        except CONTRADICTIONS as error:
            self.faults[node.name] = error.message if isinstance(error, OpError) else str(error)
            return (UNKNOWN_SHAPE,) * len(node.output_types)
        self.faults.pop(node.name, None)
        return shapes

    def _infer(self, node: Node) -> Sequence[TensorShape]:
        shapes = self._inferred(node)
        return self._with_refined(node.name, shapes) if node.name in self.refined else shapes

    def _inferred(self, node: Node) -> Sequence[TensorShape]:
        definition = node.op_def
        if node.op in MERGE_OPS:
            return self._merge(node)
        count = len(node.output_types)
        if definition is None or definition.shape is None:
            return (UNKNOWN_SHAPE,) * count
        try:
            shapes = definition.shape(NodeContext(self, node))
        except OpError as error:
            error.locate(
                node_name=node.name,
                op_type=node.op,
                input_shapes=[str(self.shape(port)) for port in node.inputs],
                creation_site=node.creation_site,
            )
            raise
        if len(shapes) != count:
            raise InvalidArgumentError(
                f"the shape function of {node.op} gives {len(shapes)} shapes for {count} outputs"
            )
        return shapes

    def _merge(self, node: Node) -> Sequence[TensorShape]:
        """Return the shape common to all inputs known so far, and the scalar index of the arrived one."""
        shape = self.relaxed.get(node.name)
        for port in node.inputs:
            known = self._shapes.get(port.node)
            if known is not None and port.slot < len(known):
                shape = known[port.slot] if shape is None else shape.relax_with(known[port.slot])
        return (shape if shape is not None else UNKNOWN_SHAPE, SCALAR)

    def refine(self, port: OutputPort, shape: TensorShape) -> None:
        """Merge what a user says of an output into what is known; InvalidArgumentError if they contradict."""
        merged = self.shape(port).merge_with(shape)
        self.refined.setdefault(port.node, {})[port.slot] = merged
        shapes = list(self._shapes[port.node])
        shapes[port.slot] = merged
        self._shapes[port.node] = shapes

    def relax(self, merge: str, shape: TensorShape) -> None:
        """Declare the shape of a loop's variable, of which the one known so far is an instance."""
        self.relaxed[merge] = shape
        self._shapes[merge] = self._merge(self.nodes[merge])

    def _with_refined(self, name: str, shapes: Sequence[TensorShape]) -> Sequence[TensorShape]:
        said = self.refined[name]
        return [shape.merge_with(said[slot]) if slot in said else shape for slot, shape in enumerate(shapes)]


def infer_shapes(graph: NodeGraph) -> ShapeInference:
    """The shapes of every output of a graph."""
    inference = ShapeInference(graph)
    inference.update()
    return inference
