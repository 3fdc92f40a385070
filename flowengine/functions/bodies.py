"""Bodies of functions as calls name them, and what has to be known of one before it stands in a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import AttrValue, FuncAttr
from flowengine.ir.functions import FunctionBody, FunctionLibrary
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import CONTROL_FLOW_OPS, ENTER_OPS
from flowengine.ir.traverse import topological_order


def body_of(library: FunctionLibrary, function: FuncAttr) -> FunctionBody:
    """The body of a function that a call names; errors as `FunctionLibrary.instantiate`."""
    attrs = {key: value for key, value in function.attrs.items() if not key.startswith("_")}
    return library.instantiate(function.name, attrs)


class FunctionBodies:
    """The bodies of one library's functions, each made once for the attributes that a call gives."""

    def __init__(self, library: FunctionLibrary) -> None:
        self.library = library
        self._made: dict[Any, FunctionBody] = {}

    def of(self, function: FuncAttr) -> FunctionBody:
        """As `body_of`. The body is shared and must not be changed."""
        key = function_key(function)
        body = self._made.get(key)
        if body is None:
            body = self._made[key] = body_of(self.library, function)
        return body


def functions_in(node: Node) -> list[FuncAttr]:
    """The functions that a node's attributes name."""
    found: list[FuncAttr] = []
    for value in node.attrs.values():
        values = value if isinstance(value, tuple) else (value,)
        found += [each for each in values if isinstance(each, FuncAttr)]
    return found


def certain_targets(body: FunctionBody) -> list[str]:
    """Of the nodes that run for their effect, those in no loop and no branch: the others run with theirs."""
    if not any(node.op in CONTROL_FLOW_OPS for node in body.graph):
        return list(body.targets)
    certain: set[str] = set()
    for name in topological_order(body.graph.nodes):
        node = body.graph.nodes[name]
        before = {port.node for port in node.inputs} | set(node.control_inputs)
        if node.op not in CONTROL_FLOW_OPS and before <= certain:
            certain.add(name)
    return [name for name in body.targets if name in certain]


def ends_with_its_results(body: FunctionBody) -> bool:
    """Whether all that runs for its effect has run once the results and the certain targets are there.

    It is not so where a loop or a branch in the body has an effect that nothing after it waits for.
    """
    certain = certain_targets(body)
    if len(certain) == len(body.targets):
        return True
    waiting = [*certain, *(port.node for port in body.results)]
    seen = set(waiting)
    while waiting:
        node = body.graph.nodes[waiting.pop()]
        for name in (*(port.node for port in node.inputs), *node.control_inputs):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen.issuperset(body.targets)


def behind_identities(body: FunctionBody, port: OutputPort) -> OutputPort:
    """Return the port that a value comes from, behind Identity nodes without control inputs."""
    node = body.graph.nodes[port.node]
    while node.op == "Identity" and not node.control_inputs:
        port = node.inputs[0]
        node = body.graph.nodes[port.node]
    return port


def renamed_attrs(node: Node, scope: str, inner: set[str]) -> dict[str, Any]:
    """The attributes of a body's node in another graph: frames and colocations have the names of there."""
    attrs = dict(node.attrs)
    if node.op in ENTER_OPS:
        attrs["frame_name"] = scope.encode("utf-8", "surrogateescape") + attrs["frame_name"]
    together = attrs.pop("_class", None)
    if isinstance(together, tuple):
        names = [each.decode("utf-8", "surrogateescape").removeprefix("loc:@") for each in together]
        kept = tuple(f"loc:@{scope}{name}".encode() for name in names if name in inner)
        if kept:
            attrs["_class"] = kept
    return attrs


def function_key(function: FuncAttr) -> Any:
    """Return the key under which a body may be stored: the function and its attributes."""
    return function.name, _frozen(function.attrs)


def _frozen(value: AttrValue) -> Any:
    """An attribute value as part of a dictionary's key; a tensor is known by its object.

    Numbers are told apart bit by bit: 0.0 is not -0.0, and a NaN is equal to itself.
    """
    if isinstance(value, Mapping):
        return tuple((name, _frozen(value[name])) for name in sorted(value))
    if isinstance(value, FuncAttr):
        return function_key(value)
    if isinstance(value, tuple):
        return tuple(_frozen(inner) for inner in value)
    if isinstance(value, DType):
        return value.number
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, int | bytes | TensorShape | None):
        return value
    return id(value)
