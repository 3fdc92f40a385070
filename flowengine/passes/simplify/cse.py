"""Merge common subexpressions: of nodes that compute the same, keep the first.

    a = f(x); b = f(x)  ->  a = f(x), and a instead of b everywhere

Two nodes compute the same if they are pure and agree in op, attributes, inputs, control inputs and requested
device. With the same inputs they are in the same frame and alive together. Attributes are compared bit by
bit: 0.0 is not -0.0, and a NaN is equal to itself. A fetched or target node keeps its name and is not
replaced, though it may replace others. Linear time, since each node becomes a key once; constants above
`COMPARED_BYTES_MAX` count as different instead of being read.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape
from flowengine.ir import traverse
from flowengine.ir.attrs import AttrValue, TensorAttr
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.purity import Purity

#: Large constants are rarely equal and slow to compare.
COMPARED_BYTES_MAX: Final = 16 * 1024

#: Types whose equality is that of their values.
_PLAIN: Final = frozenset({DType, bytes, TensorShape})


def merge_common_subexpressions(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph with each set of equal nodes reduced to one; the same graph if all differ."""
    named = {port.node for port in (*context.fetches, *context.feeds)} | set(context.targets)
    fed = {port.node for port in context.feeds}
    is_pure = Purity(context.kernels)
    #: {hash of a key: the first node that has it}. Keys are computed again if hashes agree: stored, those of
    #: a large graph would fill the caches.
    first: dict[int, str] = {}
    #: Nodes with other keys whose hash is taken.
    collided: dict[Hashable, str] = {}
    instead: dict[str, str] = {}
    for name in traverse.topological_order(graph.nodes):
        node = _redirected(graph.nodes[name], instead)
        # Placeholders, NoOps and other nodes with a purpose beside their value are not pure.
        if name in fed or not is_pure(node) or _reads_reference(node, graph):
            continue
        key = _key(node)
        known = first.setdefault(hash(key), name)
        if known != name and _key(_redirected(graph.nodes[known], instead)) != key:
            known = collided.setdefault(key, name)
        if known != name and name not in named:
            instead[name] = known
    if not instead:
        return graph
    # Once more for all, since a back edge was met before its source.
    return graph.rewritten(_redirected(node, instead) for node in graph if node.name not in instead)


def _reads_reference(node: Node, graph: NodeGraph) -> bool:
    """Return whether an input is a variable's reference: its value depends on the moment of reading."""
    for port in node.inputs:
        source = graph.nodes.get(port.node)
        if (
            source is not None
            and port.slot < len(source.output_types)
            and source.output_types[port.slot].is_ref
        ):
            return True
    return False


def _redirected(node: Node, instead: dict[str, str]) -> Node:
    """Return the node with its inputs from the remaining nodes."""
    if not instead:
        return node
    inputs, controls = node.inputs, node.control_inputs
    if any(port.node in instead for port in inputs):
        inputs = tuple(OutputPort(instead.get(port.node, port.node), port.slot) for port in inputs)
    if any(name in instead for name in controls):
        controls = tuple(dict.fromkeys(instead.get(name, name) for name in controls))
    if inputs is node.inputs and controls is node.control_inputs:
        return node
    return replace(node, inputs=inputs, control_inputs=controls)


def _key(node: Node) -> Hashable:
    # The order of control inputs means nothing.
    attrs = frozenset([(name, v if type(v) in _PLAIN else _attr_key(v)) for name, v in node.attrs.items()])
    return node.op, node.inputs, frozenset(node.control_inputs), node.device, attrs


def _attr_key(value: AttrValue) -> Hashable:
    """Return a key that is equal for equal values only; for incomparable ones, the object's identity."""
    if isinstance(value, float):
        return "float", value.hex()
    if isinstance(value, tuple):
        return tuple(_attr_key(item) for item in value)
    if isinstance(value, TensorAttr):
        return _tensor_key(value)
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    # The type distinguishes 1 from True.
    return type(value), value


def _tensor_key(attr: TensorAttr) -> Hashable:
    elements = attr.shape.num_elements()
    if elements is None or elements * (attr.dtype.size or 8) > COMPARED_BYTES_MAX:
        return "tensor", id(attr)
    array = to_array(attr.value())
    content: Hashable = tuple(array.ravel().tolist()) if array.dtype.hasobject else array.tobytes()
    return "tensor", attr.dtype, array.shape, content
