"""A graph of single precision as one of double precision: types of nodes, constants and functions.

What an op gives in single precision whatever its types are, as the flow of a TensorArray, stays so, and so do
the nodes that hand it on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from flowengine.core.dtypes import float32, float64
from flowengine.ir.graphdef import parse_graph_def
from flowengine.ir.tensorproto import decode_tensor, encode_tensor
from flowengine.ops.load import registry

_OLD: Final = float32.number
_NEW: Final[Any] = float64.number


def retyped(graph: bytes, wanted: Iterable[str]) -> bytes:
    """Return the nodes that the wanted ones need, float32 widened to float64 wherever the type may change."""
    message = parse_graph_def(graph)
    needed = _needed(list(message.node), wanted)
    for place in reversed(range(len(message.node))):
        if message.node[place].name not in needed:
            del message.node[place]
    narrow = _narrow(list(message.node))
    for node in message.node:
        if node.name not in narrow:
            _retype(node)
    for function in message.library.function:
        for arg in (*function.signature.input_arg, *function.signature.output_arg):
            if arg.type == _OLD:
                arg.type = _NEW
        for node in function.node_def:
            _retype(node)
    return message.SerializeToString()


def _needed(nodes: list[Any], wanted: Iterable[str]) -> set[str]:
    inputs = {node.name: [_node(name) for name in node.input] for node in nodes}
    found: set[str] = set()
    left = [_node(name) for name in wanted]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += inputs[name]
    return found


def _node(name: str) -> str:
    return name.removeprefix("^").split(":")[0]


def _narrow(nodes: list[Any]) -> set[str]:
    """Names of nodes that hand on what is in single precision by an op's definition."""
    tensors = {
        f"{node.name}:{place}"
        for node in nodes
        if node.op in registry()
        for place, arg in enumerate(registry()[node.op].outputs)
        if arg.type == float32
    }
    found: set[str] = set()
    grows = True
    while grows:
        grows = False
        for node in nodes:
            if node.name in found or "T" not in node.attr or node.attr["T"].type != _OLD or _takes_one(node):
                continue
            if any((name if ":" in name else f"{name}:0") in tensors for name in node.input):
                found.add(node.name)
                tensors.update(f"{node.name}:{place}" for place in range(2))
                grows = True
    return found


def _takes_one(node: Any) -> bool:
    """Whether an input is in single precision by the op's definition: its T is that of another."""
    return any(arg.type == float32 for arg in registry()[node.op].inputs)


def _retype(node: Any) -> None:
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "type" and value.type == _OLD:
            value.type = _NEW
        elif kind == "list":
            types: Any = value.list.type
            types[:] = [_NEW if each == _OLD else each for each in types]
        elif kind == "tensor" and value.tensor.dtype == _OLD:
            value.tensor.CopyFrom(encode_tensor(np.asarray(decode_tensor(value.tensor), np.float64), float64))
