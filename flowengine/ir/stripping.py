"""Leaving out attributes that say no more than their op's default, so that older readers know the rest.

A later TensorFlow writes attributes that an earlier one has not heard of and refuses; where such an attribute
has its default, the graph means the same without it.
"""

from __future__ import annotations

from collections.abc import Iterable

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.attrvalue import decode_attr
from flowengine.ir.opdef import OpRegistry
from flowengine.ir.proto import GraphDef, NodeDef


def strip_defaults(graph_def: GraphDef, registry: OpRegistry) -> None:
    """Remove them from the nodes of a GraphDef and of its functions; a node of an unknown op keeps all."""
    _strip(graph_def.node, registry)
    for function in graph_def.library.function:
        _strip(function.node_def, registry)


def drop_uncalled(graph_def: GraphDef) -> None:
    """Remove the functions that no node of the graph calls, neither itself nor through others."""
    library = {function.signature.name: function for function in graph_def.library.function}
    gradients = {each.function_name: each.gradient_func for each in graph_def.library.gradient}
    called: set[str] = set()
    waiting = [name for node in graph_def.node for name in _called(node)]
    while waiting:
        name = waiting.pop()
        if name in library and name not in called:
            called.add(name)
            waiting += [each for node in library[name].node_def for each in _called(node)]
            waiting += [gradients[name]] if name in gradients else []
    kept = [function for name, function in library.items() if name in called]
    del graph_def.library.function[:]
    graph_def.library.function.extend(kept)


def _called(node: NodeDef) -> list[str]:
    """The functions that a node may call: its op may be one, and its attributes name others."""
    found = [node.op]
    for value in node.attr.values():
        if value.HasField("func"):
            found.append(value.func.name)
        found += [each.name for each in value.list.func]
    return found


def _strip(nodes: Iterable[NodeDef], registry: OpRegistry) -> None:
    for node in nodes:
        definition = registry.find(node.op)
        for attr in () if definition is None else definition.attrs:
            if attr.has_default and attr.name in node.attr and _is(node, attr.name, attr.default):
                del node.attr[attr.name]


def _is(node: NodeDef, name: str, default: object) -> bool:
    try:
        value = decode_attr(node.attr[name])
    except InvalidArgumentError:
        return False
    if isinstance(value, TensorAttr) or isinstance(default, TensorAttr):
        return (
            isinstance(value, TensorAttr)
            and isinstance(default, TensorAttr)
            and value.dtype is default.dtype
            and value.shape == default.shape
            and to_array(value.value()).tolist() == to_array(default.value()).tolist()
        )
    return type(value) is type(default) and bool(value == default)
