"""GraphDef to Graph and back, losing nothing.

Reading applies the default attributes that the op definitions give, so that whoever uses a node finds
all of them; what was applied is not written back. A node that no pass has touched is written exactly
as it was read: attributes that its op does not know, debug information, the spelling of its inputs.
The rest of the GraphDef (library, versions, fields of later versions) is kept beside the nodes.

    graph = graph_from_def(parse_graph_def(data), registry)
    graph_to_def(graph).SerializeToString()
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from google.protobuf.unknown_fields import UnknownFieldSet

from flowengine.core.collector import collection_paused
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import CONTROL_SLOT, parse_input
from flowengine.ir.attrs import AttrValue
from flowengine.ir.attrvalue import decode_attr, write_attr, write_attrs
from flowengine.ir.graph import GRAPH_VERSION, Node, NodeGraph, OutputPort
from flowengine.ir.graphfile import parse_graph_def
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ir.opdefproto import op_def_from_proto
from flowengine.ir.proto import FunctionDefLibrary, GraphDef, NodeDef, OpList, VersionDef
from flowengine.ir.proto import OpDef as OpDefProto
from flowengine.ir.signature import SignatureCache
from flowengine.ir.stripping import drop_later_defaults
from flowengine.ir.traits import Newer
from flowengine.ir.validate import fault_error, graph_faults

__all__ = ["graph_from_def", "graph_to_def", "parse_graph_def", "read_into", "write_node"]

_Graph = TypeVar("_Graph", bound=NodeGraph)


@dataclass(frozen=True, slots=True)
class _NodeSource:
    """The NodeDef that a node was read from, and what was made of it: `Node.source` of an imported node.

    A part of the node that is still the same object is written back from the proto.
    """

    proto: NodeDef
    attrs: Mapping[str, AttrValue]
    inputs: tuple[OutputPort, ...]
    control_inputs: tuple[str, ...]


def graph_from_def(
    graph_def: GraphDef,
    registry: OpRegistry,
    *,
    strict: bool = False,
    supplied: Collection[OutputPort] = (),
    library: FunctionDefLibrary | None = None,
) -> NodeGraph:
    """The graph; InvalidArgumentError with every fault in `faults`.

    strict     an op that the registry does not know is a fault; else it is kept as an opaque node
    supplied   ports that are fed, whose nodes may be missing: a partition is no whole graph
    library    the functions, where they are another graph's; None for those of the GraphDef
    The GraphDef is kept by the graph and must not be changed afterwards.
    """
    return read_into(NodeGraph(), graph_def, registry, strict=strict, supplied=supplied, library=library)


def read_into(
    graph: _Graph,
    graph_def: GraphDef,
    registry: OpRegistry,
    *,
    strict: bool = False,
    supplied: Collection[OutputPort] = (),
    library: FunctionDefLibrary | None = None,
    producer_ops: OpList | None = None,
) -> _Graph:
    """Add the nodes of a GraphDef to a graph, which stays as it was where there is a fault.

    producer_ops   the definitions of the ops as the graph's producer knows them: attributes that ops here
                   lack and that have the producer's default are removed from the GraphDef
    An empty graph takes over library and versions; errors as `graph_from_def`.
    """
    _check_versions(graph_def.versions)
    if producer_ops is not None:
        drop_later_defaults(graph_def, producer_ops, registry)
    fresh = len(graph) == 0
    if library is None and graph_def.HasField("library"):
        library = graph_def.library
    with collection_paused():
        for node in _read_nodes(graph, graph_def, _NodeReader(registry, library), strict, supplied):
            graph.add(node)
    if fresh:
        graph.source = graph_def
        graph.producer = graph_def.versions.producer
        graph.min_consumer = graph_def.versions.min_consumer
        graph.library = library
    return graph


def _check_versions(versions: VersionDef) -> None:
    """InvalidArgumentError if the graph's producer wants consumers of another version than this engine's."""
    remedy = "export the graph with TensorFlow 2.21 or an older version"
    if versions.min_consumer > GRAPH_VERSION:
        raise InvalidArgumentError(
            f"the graph wants consumers of GraphDef version {versions.min_consumer} or above "
            f"(versions.min_consumer), and this engine's is {GRAPH_VERSION} (the graph's producer version is "
            f"{versions.producer}): {remedy}"
        )
    if GRAPH_VERSION in versions.bad_consumers:
        raise InvalidArgumentError(
            f"the graph's producer (version {versions.producer}) excludes consumers of GraphDef version "
            f"{GRAPH_VERSION}, this engine's (versions.bad_consumers): {remedy}"
        )


def _read_nodes(
    graph: NodeGraph,
    graph_def: GraphDef,
    reader: _NodeReader,
    strict: bool,
    supplied: Collection[OutputPort],
) -> list[Node]:
    """The nodes to add, checked together with those that the graph has."""
    nodes: dict[str, Node] = dict(graph.nodes)
    added: list[Node] = []
    for proto in graph_def.node:
        node = reader.read(proto)
        if node.name in nodes:
            reader.faults.append(f"{node.op} '{node.name}': another node has the same name")
            continue
        nodes[node.name] = node
        added.append(node)
    faults = reader.faults + graph_faults(nodes, strict=strict, frames=strict, supplied=supplied)
    if faults:
        raise fault_error(faults)
    return added


class _NodeReader:
    """NodeDefs to Nodes; what the nodes of one graph have in common is made once and shared."""

    def __init__(self, registry: OpRegistry, library: FunctionDefLibrary | None) -> None:
        self.faults: list[str] = []
        self._registry = registry
        self._library = library
        self._signatures = SignatureCache()
        #: op -> (its definition, the attributes that it gives by default).
        self._definitions: dict[str, tuple[OpDef | None, dict[str, AttrValue]]] = {}
        #: An input as it is spelled -> its port, with CONTROL_SLOT for a control input.
        self._ports: dict[str, OutputPort] = {}

    @cached_property
    def _functions(self) -> dict[str, OpDefProto]:
        """The signatures of the graph's own functions, any of which may be used as an op."""
        functions = () if self._library is None else self._library.function
        return {function.signature.name: function.signature for function in functions}

    def read(self, proto: NodeDef) -> Node:
        name, op = proto.name, proto.op
        op_def, defaults = self._definitions.get(op) or self._define(op)
        attrs = defaults.copy()
        for key, value in proto.attr.items():
            attrs[key] = decode_attr(value)
        inputs: list[OutputPort] = []
        controls: list[str] = []
        ports = self._ports
        for text in proto.input:
            port = ports.get(text)
            if port is None:
                source, slot = parse_input(text)
                port = ports[text] = OutputPort(source, slot)
            if port.slot == CONTROL_SLOT:
                controls.append(port.node)
            elif controls:
                self.faults.append(f"{op} '{name}': the data input '{text}' comes after a control input")
            else:
                inputs.append(port)
        data, control_inputs = tuple(inputs), tuple(controls)
        types = self._signatures.types(op_def, attrs) if op_def is not None else None
        outputs = types[1] if types is not None else ()
        origin = _NodeSource(proto, attrs, data, control_inputs)
        return Node(name, op, data, control_inputs, attrs, proto.device, op_def, outputs, "", origin)

    def _define(self, op: str) -> tuple[OpDef | None, dict[str, AttrValue]]:
        op_def = self._registry.get(op)
        if op_def is None and op in self._functions:
            try:
                op_def = op_def_from_proto(self._functions[op])
            except InvalidArgumentError as error:
                self.faults.append(error.message)
        elif op_def is None:
            op_def = self._registry.find(op)
        definition = (op_def, {} if op_def is None else op_def.with_defaults({}))
        self._definitions[op] = definition
        return definition


def graph_to_def(graph: NodeGraph) -> GraphDef:
    """The GraphDef of a graph, a new one.

    Raises InvalidArgumentError for an attribute or a constant that has no written form.
    """
    result = GraphDef()
    if isinstance(graph.source, GraphDef):
        _copy_rest(graph.source, result)
    if graph.library is None:
        result.ClearField("library")
    elif isinstance(graph.library, FunctionDefLibrary):
        result.library.CopyFrom(graph.library)
    if result.versions.producer != graph.producer:
        result.versions.producer = graph.producer
    if result.versions.min_consumer != graph.min_consumer:
        result.versions.min_consumer = graph.min_consumer
    for node in graph:
        write_node(result.node.add(), node)
    return result


def _copy_rest(source: GraphDef, result: GraphDef) -> None:
    """Everything but the nodes."""
    if len(UnknownFieldSet(source)):
        # Fields that this version does not know can only be copied along with all others.
        result.CopyFrom(source)
        result.ClearField("node")
        return
    for field, value in source.ListFields():
        if field.name == "version":
            result.version = value
        elif field.name != "node":
            getattr(result, field.name).CopyFrom(value)


def write_node(target: NodeDef, node: Node) -> None:
    """Fill an empty NodeDef; errors as `graph_to_def`."""
    origin = node.source if isinstance(node.source, _NodeSource) else None
    if origin is None:
        target.name, target.op, target.device = node.name, node.op, node.device
        write_attrs(target.attr, _written(node))
    else:
        target.CopyFrom(origin.proto)
        if target.name != node.name or target.op != node.op or target.device != node.device:
            target.name, target.op, target.device = node.name, node.op, node.device
        if node.attrs is not origin.attrs:
            _write_changed_attrs(target, node, origin)
        if node.inputs is origin.inputs and node.control_inputs is origin.control_inputs:
            return
        target.ClearField("input")
    target.input.extend(port.node if port.slot == 0 else str(port) for port in node.inputs)
    target.input.extend(f"^{name}" for name in node.control_inputs)


def _written(node: Node) -> Mapping[str, AttrValue]:
    """The attributes of a node that was made here, as TensorFlow 1.15 knows them."""
    newer = node.trait(Newer)
    if newer is None or node.op_def is None:
        return node.attrs
    defaults = node.op_def.with_defaults({})
    return {
        name: value
        for name, value in node.attrs.items()
        if name not in newer.names or value != defaults.get(name)
    }


def _write_changed_attrs(target: NodeDef, node: Node, origin: _NodeSource) -> None:
    """Bring the attributes up to date; a default that was applied when reading stays unwritten."""
    for name in origin.attrs:
        if name not in node.attrs and name in target.attr:
            del target.attr[name]
    for name, value in node.attrs.items():
        if name not in origin.attrs or origin.attrs[name] is not value:
            target.attr[name].Clear()
            write_attr(target.attr[name], value)
