"""Fuse chains of elementwise nodes over large tensors: one pass over memory for all of them.

    BiasAdd -> Mul -> Add -> Relu, all over the same large tensors  ->  _FusedElementwise{...}

A group is grown from its last node towards the inputs: a node joins if nothing but the group takes its
result. Which nodes are over large tensors is what the interpreter has seen (`large`). The last node's name
stays. The steps see the values that they would have seen, so nothing changes in any bit, and inputs of other
shapes than expected are computed node by node (`kernels/numpy/fused.py`). Linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from flowengine.core.dtypes import resource
from flowengine.ir import traverse
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.traits import GivesVariable, HandsOn, Reads, ValueOf
from flowengine.kernels.numpy.fused import Chain, ChainStep
from flowengine.kernels.provider import ClaimContext, claimed_node, outside
from flowengine.kernels.registry import Kernel
from flowengine.ops.internal import FUSED_ELEMENTWISE

#: Of two inputs one may be a number or a vector along the last axis.
BROADCASTING: Final = frozenset(
    {"Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "SquaredDifference"}
)
_SAME_SHAPE: Final = frozenset(
    {
        *("Abs", "Neg", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Exp", "Expm1", "Log", "Log1p"),
        *("Tanh", "Sigmoid", "Sin", "Cos", "Floor", "Ceil", "Round", "Sign", "Erf"),
        *("Relu", "Relu6", "Elu", "Selu", "LeakyRelu", "Softplus", "Softsign"),
        *("ReluGrad", "Relu6Grad", "EluGrad", "SeluGrad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad"),
        *("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"),
        *("AddN",),
    }
)
_BIASES: Final = frozenset({"BiasAdd", "BiasAddV1"})
#: Types whose kernels may be called block by block without a check of each block.
_TYPES: Final = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
#: Blocks of more intermediate values would not stay in cache.
MEMBERS_MAX: Final = 24


def fuse_elementwise(graph: NodeGraph, context: ClaimContext) -> NodeGraph:
    """The graph with groups of two or more large elementwise nodes fused; the same graph if there is none."""
    large = context.large
    if not large:
        return graph
    groups = ChainGroups(graph, context)
    made: dict[str, Node] = {}
    dropped: set[str] = set()
    for name in reversed(traverse.topological_order(graph.nodes)):
        if name in dropped or name not in large or not groups.is_elementwise(graph[name]):
            continue
        members = groups.grown(graph[name], lambda node: node.name in large)
        if len(members) > 1:
            made[name] = groups.fused(members)
            dropped.update(node.name for node in members[:-1])
    if not made:
        return graph
    return graph.rewritten(made.get(node.name, node) for node in graph if node.name not in dropped)


def _maybe_written(node: Node) -> Iterator[OutputPort]:
    """The references and handles among its inputs through which it may write."""
    if node.op_def is None:
        yield from node.inputs
    elif not node.has(Reads) or any(dtype.is_ref for dtype in node.output_types):
        for port, dtype in zip(node.inputs, node.input_types(), strict=True):
            if dtype.is_ref or dtype.base is resource:
                yield port


class ChainGroups:
    """The chains of a graph that may be fused, and the nodes that stand for them."""

    def __init__(self, graph: NodeGraph, context: ClaimContext) -> None:
        self.graph = graph
        self._kernels = context.kernels
        self._feeds = frozenset(context.feeds)
        self._kept = context.kept
        #: References and handles that something takes which may write to the variable.
        self._written: set[OutputPort] = set()
        #: {node: how many edges lead from it}; control edges count twice, so that they keep it.
        self._edges: dict[str, int] = {}
        #: Nodes of which something takes a further output.
        self._more = {port.node for port in (*context.fetches, *context.feeds) if port.slot}
        for node in graph:
            self._written.update(_maybe_written(node))
            for port in node.inputs:
                self._edges[port.node] = self._edges.get(port.node, 0) + 1
                if port.slot:
                    self._more.add(port.node)
            for name in node.control_inputs:
                self._edges[name] = self._edges.get(name, 0) + 2
        self._found: dict[str, Kernel | None] = {}

    def is_elementwise(self, node: Node) -> bool:
        """Whether it is one of the ops and types that chains are made of."""
        if node.op in _BIASES:
            if node.attrs.get("data_format", b"NHWC") != b"NHWC":
                return False
        elif node.op not in BROADCASTING and node.op not in _SAME_SHAPE:
            return False
        types = node.output_types
        return len(types) == 1 and types[0].as_numpy_dtype in _TYPES and self._kernel(node) is not None

    def _kernel(self, node: Node) -> Kernel | None:
        """The plain kernel of an elementwise node: a provider's would spread each block over the cores."""
        if node.name not in self._found:
            offers = self._kernels.candidates(node.op)
            serving = (k for k in offers if k.provider == "numpy" and k.maker is None and k.serves(node))
            kernel = next(serving, None)
            if kernel is not None and (kernel.is_async or kernel.takes_context):
                kernel = None
            self._found[node.name] = kernel
        return self._found[node.name]

    def is_inner(self, name: str) -> bool:
        """Whether a node's results are there for one taker only."""
        return self._edges.get(name, 0) == 1 and name not in self._kept

    def gives_first(self, name: str) -> bool:
        """Whether nobody takes more of a node than its first output."""
        return name not in self._more

    def is_held(self, port: OutputPort) -> bool:
        """Whether a value is the array that a variable holds, which nothing here writes to."""
        while port not in self._feeds:
            node = self.graph.nodes.get(port.node)
            if node is None:
                return False
            read = node.trait(ValueOf)
            if read is not None:
                return node.inputs[read.places[0]] not in self._written
            if node.has(GivesVariable):
                # A handle is no value.
                return node.output_types[port.slot].is_ref and port not in self._written
            if not node.has(HandsOn):
                return False
            port = node.inputs[0]
        return False

    def grown(self, root: Node, joins: Callable[[Node], bool]) -> list[Node]:
        """The elementwise nodes that end in `root`, in the order in which they run."""
        members = [root]
        taken = {root.name}
        for member in members:
            for port in member.inputs:
                node = self.graph.nodes.get(port.node)
                if (
                    node is not None
                    and len(members) < MEMBERS_MAX
                    and node.name not in taken
                    and node.device == root.device
                    and joins(node)
                    and self._is_taken_by(node, taken)
                    and self.is_elementwise(node)
                ):
                    members.append(node)
                    taken.add(node.name)
        # A node is found behind those that take its result: backwards every input comes first.
        return members[::-1]

    def _is_taken_by(self, node: Node, taken: set[str]) -> bool:
        """Whether nothing but members takes its result."""
        if node.name in self._kept:
            return False
        edges = sum(port.node == node.name for name in taken for port in self.graph[name].inputs)
        return edges == self._edges.get(node.name, 0)

    def steps(self, members: Sequence[Node], known: Mapping[OutputPort, int]) -> list[ChainStep]:
        """The members as steps of a chain whose inputs have these numbers."""
        places = dict(known)
        steps = []
        for node in members:
            kernel = self._kernel(node)
            assert kernel is not None
            steps.append(
                ChainStep(
                    node,
                    kernel.bind(node),
                    tuple(places[port] for port in node.inputs),
                    as_list=node.op == "AddN",
                    broadcasts=node.op in BROADCASTING,
                    adds_bias=node.op in _BIASES,
                )
            )
            places[OutputPort(node.name, 0)] = len(known) + len(steps) - 1
        return steps

    def fused(self, members: Sequence[Node]) -> Node:
        """The node that stands for a group, under the name of its last."""
        inputs = outside(members)
        steps = self.steps(members, {port: i for i, port in enumerate(inputs)})
        chain = Chain(steps, members[-1].output_types[0].as_numpy_dtype)
        return claimed_node(FUSED_ELEMENTWISE, members, inputs, chain)
