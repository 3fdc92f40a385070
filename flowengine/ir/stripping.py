"""Attributes that a node may do without: defaults, notes, and what the op of another TensorFlow has.

A later TensorFlow writes attributes that an earlier one has not heard of and refuses; where such an attribute
has its default, the graph means the same without it. An attribute that an op here lacks is ignored only then,
or if its name begins with `_`; `ir.validate` reports any other as a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.attrs import AttrValue, TensorAttr
from flowengine.ir.attrvalue import decode_attr
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ir.proto import GraphDef, NodeDef, OpList
from flowengine.ir.traits import LaterAttrs

#: Characters of a value that a message quotes.
_QUOTED: Final = 60


@dataclass(frozen=True, slots=True)
class UnknownAttr:
    """An attribute of a node that its op lacks.

    value      as text
    function   the function of the library in whose body the node is; empty for the graph itself
    """

    node: str
    op: str
    attr: str
    value: str
    function: str = ""


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


def unknown_attrs(op_def: OpDef, attrs: Mapping[str, AttrValue]) -> list[str]:
    """List the attributes that the op lacks and that may change what the node means."""
    known = {each.name for each in op_def.attrs}
    later = op_def.traits.get(LaterAttrs)
    ignored = dict(later.values) if isinstance(later, LaterAttrs) else {}
    return [
        name
        for name, value in attrs.items()
        if name not in known and not name.startswith("_") and value not in ignored.get(name, ())
    ]


def unknown_attr_fault(op_def: OpDef, name: str, value: AttrValue) -> str:
    """Describe an attribute that the op lacks, and what to do about it."""
    known = [each.name for each in op_def.attrs]
    close = get_close_matches(name, known, n=1)
    has = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(known) or 'none'}"
    return (
        f"attribute '{name}' ({_text(value)}) is unknown to the op ({has}). The graph's producer has another "
        f"{op_def.name}: export the graph with ops that are here, or remove the attribute if the node means "
        "the same without it"
    )


def drop_later_defaults(graph_def: GraphDef, producer_ops: OpList, registry: OpRegistry) -> None:
    """Remove attributes that ops here lack and that have the defaults which the producer's definitions state.

    graph_def      changed in place, with the bodies of its functions
    producer_ops   the definitions of the graph's ops, as a MetaGraphDef's `stripped_op_list` has them
    """
    defaults = {
        op.name: {attr.name: attr.default_value for attr in op.attr if attr.HasField("default_value")}
        for op in producer_ops.op
    }
    for _, node in _nodes(graph_def):
        known = defaults.get(node.op)
        definition = registry.get(node.op) if known else None
        if not known or definition is None:
            continue
        attrs = {name: decode_attr(node.attr[name]) for name in node.attr if name in known}
        for name in unknown_attrs(definition, attrs):
            if node.attr[name] == known[name]:
                del node.attr[name]


def take_unknown_attrs(graph_def: GraphDef, registry: OpRegistry) -> list[UnknownAttr]:
    """Remove all attributes that would be faults, so that a tool can look at the rest, and list them."""
    found: list[UnknownAttr] = []
    for function, node in _nodes(graph_def):
        definition = registry.find(node.op) if node.attr else None
        if definition is None or all(definition.attr(name) is not None for name in node.attr):
            continue
        attrs = {name: decode_attr(value) for name, value in node.attr.items()}
        for name in unknown_attrs(definition, attrs):
            found.append(UnknownAttr(node.name, node.op, name, _text(attrs[name]), function))
            del node.attr[name]
    return found


def _nodes(graph_def: GraphDef) -> Iterator[tuple[str, NodeDef]]:
    """The nodes of the graph and of its functions, with the function's name."""
    groups: list[tuple[str, Sequence[NodeDef]]] = [("", graph_def.node)]
    groups += [(each.signature.name, each.node_def) for each in graph_def.library.function]
    for function, nodes in groups:
        for node in nodes:
            yield function, node


def _text(value: AttrValue) -> str:
    if isinstance(value, bytes):
        text = repr(value.decode("utf-8", "backslashreplace"))
    elif isinstance(value, DType):
        text = value.name
    elif isinstance(value, tuple):
        text = f"[{', '.join(map(_text, value[:_QUOTED]))}]"
    elif isinstance(value, float):
        text = f"{value:.7g}"
    else:
        text = str(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
