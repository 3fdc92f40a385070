"""Freezing: a graph whose variables have become constants, and that needs no session to remember anything.

    frozen = await fe.freeze(graph, session, ["probabilities"])
    open("graph.pb", "wb").write(frozen.to_graph_def().SerializeToString())

    ReadVariableOp(VarHandleOp w)            ->  Identity(Const of w's value)
    Identity(VariableV2 w)                   ->  Identity(Const of w's value)
    ReadVariableOp(Enter(VarHandleOp w))     ->  Identity(Enter(Const of w's value))

Calls of functions become part of the graph first, so that variables which they read are found. Tables and
other resources stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.dtypes import int32 as INT32
from flowengine.core.dtypes import resource as RESOURCE
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import parse_tensor_name
from flowengine.core.sessions.calls import takes_session
from flowengine.functions.lowering import CallLowering
from flowengine.graphs.given import need_graph
from flowengine.graphs.graph import Graph
from flowengine.graphs.reading import part_of, readers_of, value_of
from flowengine.ir import make
from flowengine.ir.attrs import FuncAttr, TensorAttr
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import CONTROL_FLOW_OPS
from flowengine.ir.traits import Constant, GivesVariable

#: {what reads a handle: what does the same to a tensor}
_READS: Final = {
    "ReadVariableOp": "Identity",
    "ResourceGather": "GatherV2",
    "ResourceGatherNd": "GatherNd",
    "VariableShape": "Shape",
}
#: What hands on whatever it gets, under another name for references.
_CARRIERS: Final = {
    "Identity": "Identity",
    "RefIdentity": "Identity",
    "IdentityN": "IdentityN",
    **{op: op.removeprefix("Ref") for op in CONTROL_FLOW_OPS},
}


@takes_session(is_awaited_only=True, name="fe.freeze")
async def freeze(graph: Graph, session: Any, outputs: Iterable[Any]) -> Graph:
    """Return a new graph of the nodes that the outputs need, with the variables' present values as constants.

    graph     the session's graph, or a part of it
    session   has the values; see `Session`. From another façade: `session.call(freeze_in, graph, outputs)`
    outputs   tensors or nodes, by name or as Tensors and Operations

    The names of outputs and placeholders stay. Raises FailedPreconditionError for a variable without a value,
    InvalidArgumentError if a node that the outputs need changes a variable, or calls itself with one.
    Cancelled, it leaves nothing behind.

    >>> graph = fe.Graph()
    >>> y = fe.identity(graph.variable(3.0, name="w") * 2.0, name="y")
    >>> async def main():
    ...     async with fe.Session(graph) as session:
    ...         await session.initialize()
    ...         return await fe.freeze(graph, session, [y])
    >>> frozen = trio.run(main)
    >>> fe.testing.evaluate(frozen, ["y:0"])[0].tolist()
    6.0
    """
    need_graph(graph, "await fe.freeze(graph, session, outputs)")
    names = [parse_tensor_name(_name(each))[0] for each in outputs]
    if not names:
        raise InvalidArgumentError("outputs is empty: name the tensors or nodes to keep")
    opened = part_with_bodies(graph, names)
    variables = {node.name: node for node in opened if node.has(GivesVariable)}
    readers = readers_of(graph)
    fetches = {}
    for name, node in variables.items():
        trait = node.trait(GivesVariable)
        assert trait is not None
        dtype = node.attrs[trait.dtype]
        assert isinstance(dtype, DType)
        fetches[name] = value_of(graph, name, dtype.base, readers)
    values: Mapping[str, Value] = await session.run(fetches) if fetches else {}
    return _GraphFreezer(opened, values).done(names)


async def freeze_in(session: Any, graph: Graph, outputs: Iterable[Any]) -> Graph:
    """`freeze` for `session.call` of the façades."""
    return await freeze(graph, session, outputs)


def _name(each: Any) -> str:
    name = each if isinstance(each, str) else each.name
    return name if ":" in name else f"{name}:0"


def part_with_bodies(graph: Graph, names: Sequence[str]) -> Graph:
    """Return a new graph of the nodes that some need, with the bodies of functions in the place of calls."""
    part = part_of(graph, names)
    if graph.library is None:
        return part
    lowering = CallLowering(part, keeps_gradients=False)
    found = True
    while found:
        found = False
        for node in list(part):
            if lowering.can_lower(node):
                lowering.lower(node, is_anchored=True)
                found = True
    return part_of(part, names)


def _untied(nodes: Sequence[Node]) -> list[Node]:
    """Nodes that wait for no constant: what was a variable is there always, and needs no node to say so."""
    constant: set[str] = set()
    for node in nodes:
        is_copy = node.op == "Identity" and node.inputs[0].node in constant
        if (node.has(Constant) or is_copy) and constant.issuperset(node.control_inputs):
            constant.add(node.name)
    return [
        replace(node, control_inputs=tuple(name for name in node.control_inputs if name not in constant))
        if not constant.isdisjoint(node.control_inputs)
        else node
        for node in nodes
    ]


class _GraphFreezer:
    """The tables of one freezing: which outputs have become values of what type."""

    def __init__(self, graph: Graph, values: Mapping[str, Value]) -> None:
        self.graph = graph
        self.ops = graph.registry
        self.values = values
        #: {output that carried a variable: the type of the value that it carries instead}
        self.carried: dict[OutputPort, DType] = {}
        self.nodes: dict[str, Node] = {}

    def done(self, names: Sequence[str]) -> Graph:
        """The frozen graph."""
        for node in self.graph:
            if node.name in self.values:
                self.nodes[node.name] = self._constant(node)
        self._carry()
        for node in self.graph:
            if node.name not in self.nodes:
                self.nodes[node.name] = self._after(node)
        extras = [extra for name, extra in self.nodes.items() if name not in self.graph]
        result = Graph(
            _untied([*extras, *self._in_order()]),
            registry=self.ops,
            producer=self.graph.producer,
            min_consumer=self.graph.min_consumer,
        )
        result.library = self.graph.library if self._calls() else None
        return part_of(result, names)

    def _in_order(self) -> Iterable[Node]:
        return (self.nodes[node.name] for node in self.graph)

    def _calls(self) -> bool:
        """Whether functions are called still: those that call themselves."""
        return any(isinstance(value, FuncAttr) for node in self.graph for value in node.attrs.values())

    def _constant(self, node: Node) -> Node:
        trait = node.trait(GivesVariable)
        assert trait is not None
        dtype = node.attrs[trait.dtype]
        assert isinstance(dtype, DType)
        self.carried[OutputPort(node.name, 0)] = dtype.base
        value = TensorAttr.of(self.values[node.name], dtype.base)
        return make.const(self.ops, node.name, value, controls=node.control_inputs, device=node.device)

    def _carry(self) -> None:
        """Mark the nodes that forward a variable as forwarding its value, to a fixed point for loops."""
        changed = True
        while changed:
            changed = False
            for node in self.graph:
                if node.op not in _CARRIERS or node.name in self.values:
                    continue
                for slot, dtype in self._carries(node):
                    if OutputPort(node.name, slot) not in self.carried:
                        self.carried[OutputPort(node.name, slot)] = dtype
                        changed = True

    def _carries(self, node: Node) -> Iterable[tuple[int, DType]]:
        """(output, type) of what a carrier has from a variable."""
        if node.op == "IdentityN":
            for slot, port in enumerate(node.inputs):
                if port in self.carried:
                    yield slot, self.carried[port]
            return
        held = next((self.carried[port] for port in node.inputs if port in self.carried), None)
        if held is not None:
            for slot, dtype in enumerate(node.output_types):
                if dtype is RESOURCE or dtype.base is held:
                    yield slot, held

    def _after(self, node: Node) -> Node:
        """The node over values; itself where it has nothing to do with a variable."""
        held = [self.carried.get(port) for port in node.inputs]
        if not any(held):
            return node
        if node.op in _CARRIERS:
            return self._carrier(node, held)
        if node.op in _READS and held[0] is not None:
            return self._reading(node, held[0])
        carrying = [dtype for dtype, was in zip(node.input_types(), held, strict=True) if was is not None]
        if any(dtype is RESOURCE or dtype.is_ref for dtype in carrying):
            raise InvalidArgumentError(
                f"'{node.name}' ({node.op}) uses a variable itself, not only its value: these outputs "
                "cannot be frozen"
            )
        return node

    def _carrier(self, node: Node, held: Sequence[DType | None]) -> Node:
        op = _CARRIERS[node.op]
        definition = self.ops[op]
        attrs = dict(node.attrs)
        if op == "IdentityN":
            old = node.attrs["T"]
            assert isinstance(old, tuple)
            attrs["T"] = tuple(a if b is None else b for a, b in zip(old, held, strict=True))
        else:
            attrs["T"] = next(dtype for dtype in held if dtype is not None)
        types = definition.output_types(attrs)
        return replace(node, op=op, op_def=definition, attrs=attrs, output_types=types, source=None)

    def _reading(self, node: Node, dtype: DType) -> Node:
        op = _READS[node.op]
        inputs, attrs = list(node.inputs), dict(node.attrs)
        kept: dict[str, Any] = {"T": dtype}
        if op == "Shape":
            kept["out_type"] = attrs.get("out_type")
        elif op != "Identity":
            kept = {"Tparams": dtype, "Tindices": attrs["Tindices"]}
        if op == "GatherV2":
            axis = f"{node.name}/axis"
            while axis in self.graph:
                axis += "_"
            batch_dims = attrs.get("batch_dims", 0)
            kept |= {"batch_dims": batch_dims, "Taxis": INT32}
            self.nodes[axis] = make.const(self.ops, axis, TensorAttr.of(np.int32(batch_dims), INT32))
            inputs.append(OutputPort(axis, 0))
        return make.node(
            self.ops,
            op,
            node.name,
            inputs=inputs,
            controls=node.control_inputs,
            device=node.device,
            creation_site=node.creation_site,
            **{key: value for key, value in kept.items() if value is not None},
        )
