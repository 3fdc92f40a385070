"""Graphs drawn as text, and equality of graphs up to the names of their nodes.

    graph("A1 -> B2 -> A3; A1 -> A3")

A node's first letter is its device: A is /device:CPU:0, B is /device:CPU:1, and so on. `->` is a data
edge and `~>` a control edge; statements end with `;` or a line. A node without data inputs is a Const, one
with inputs adds them up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.attrs import FuncAttr, TensorAttr
from flowengine.ir.graph import NodeGraph

_NODE: Final = re.compile(r"[A-Z][A-Za-z0-9_]*\Z")
_ARROW: Final = re.compile(r"(->|~>)")


def graph(picture: str) -> Graph:
    """Return the graph that a picture shows; InvalidArgumentError saying what cannot be read.

    Nodes are float32 scalars and lie in the order in which they are first named, but after their inputs.
    """
    data: dict[str, list[str]] = {}
    control: dict[str, list[str]] = {}
    for statement in re.split(r"[;\n]", picture):
        if not statement.strip():
            continue
        words = [word.strip() for word in _ARROW.split(statement)]
        for name in words[::2]:
            if not _NODE.match(name):
                raise InvalidArgumentError(f"{name!r} in {statement.strip()!r} is no node: write 'A1 -> B2'")
            data.setdefault(name, [])
            control.setdefault(name, [])
        for source, arrow, target in zip(words[::2], words[1::2], words[2::2], strict=False):
            (data if arrow == "->" else control)[target].append(source)
    return _build(data, control)


def _build(data: Mapping[str, list[str]], control: Mapping[str, list[str]]) -> Graph:
    result = Graph()
    tensors: dict[str, Tensor] = {}

    def build(name: str, consumers: tuple[str, ...]) -> Tensor:
        if name in consumers:
            raise InvalidArgumentError(f"the picture has a cycle: {' <- '.join((*consumers, name))}")
        if name not in tensors:
            inputs = [build(source, (*consumers, name)) for source in data[name]]
            before = [build(source, (*consumers, name)) for source in control[name]]
            device = f"/device:CPU:{ord(name[0]) - ord('A')}"
            with result.device(device), result.control_dependencies(before):
                if inputs:
                    tensors[name] = result.ops.AddN(inputs, name=name)
                else:
                    tensors[name] = result.constant(float(len(tensors)), "float32", name=name)
        return tensors[name]

    for name in data:
        build(name, ())
    return result


def same_up_to_names(first: NodeGraph, second: NodeGraph) -> bool:
    """Whether the graphs `first` and `second` are equal except for the names and the order of nodes.

    Raises InvalidArgumentError for an attribute whose value cannot be read.
    """
    return len(first) == len(second) and _match(first, second, _initial(first), _initial(second))


def _initial(g: NodeGraph) -> dict[str, Any]:
    return {
        node.name: (node.op, node.device, tuple(sorted((k, _plain(v)) for k, v in node.attrs.items())))
        for node in g
    }


def _plain(value: Any) -> str:
    """Return an attribute's value as text, which is equal for equal values."""
    if isinstance(value, TensorAttr):
        held = value.value()
        content = held.tobytes() if hasattr(held, "tobytes") and held.dtype != object else repr(held)
        return f"{value.dtype} {value.shape} {content!r}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_plain, value)) + ")"
    if isinstance(value, FuncAttr):
        return f"{value.name} {sorted((k, _plain(v)) for k, v in value.attrs.items())}"
    return value.name if isinstance(value, DType) else f"{type(value).__name__} {value}"


def _match(first: NodeGraph, second: NodeGraph, a: dict[str, Any], b: dict[str, Any]) -> bool:
    a, b = _refine(first, second, a, b)
    counts = Counter(a.values())
    if counts != Counter(b.values()):
        return False
    alike = next((colour for colour, number in counts.items() if number > 1), None)
    if alike is None:
        return True
    chosen = next(name for name, colour in a.items() if colour == alike)
    for name, colour in b.items():
        if colour == alike and _match(first, second, {**a, chosen: "chosen"}, {**b, name: "chosen"}):
            return True
    return False


def _refine(
    first: NodeGraph, second: NodeGraph, a: dict[str, Any], b: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Distinguish nodes by their neighbours until no class of nodes splits any more."""
    classes = 0
    while True:
        a, b = _look_around(first, a), _look_around(second, b)
        numbers: dict[Any, int] = {}
        for colours in (a, b):
            for name, colour in colours.items():
                colours[name] = numbers.setdefault(colour, len(numbers))
        if len(numbers) == classes:
            return a, b
        classes = len(numbers)


def _look_around(g: NodeGraph, colours: Mapping[str, Any]) -> dict[str, Any]:
    consumers: dict[str, list[Any]] = {name: [] for name in g.nodes}
    for node in g:
        for place, port in enumerate(node.inputs):
            if port.node in consumers:
                consumers[port.node].append(("data", place, port.slot, str(colours[node.name])))
        for name in node.control_inputs:
            if name in consumers:
                consumers[name].append(("control", -1, -1, str(colours[node.name])))
    return {
        node.name: (
            colours[node.name],
            tuple((colours.get(port.node), port.slot) for port in node.inputs),
            tuple(sorted(str(colours.get(name)) for name in node.control_inputs)),
            tuple(sorted(consumers[node.name])),
        )
        for node in g
    }


def as_text(g: NodeGraph) -> str:
    """Return the graph `g` as text, a line for each node, for the message of a failing test.

    Raises InvalidArgumentError for a constant whose value cannot be read.
    """
    lines = []
    for node in g:
        inputs = ", ".join([*map(str, node.inputs), *(f"^{name}" for name in node.control_inputs)])
        attrs = ", ".join(f"{key}={_shown(value)}" for key, value in node.attrs.items())
        lines.append(f"{node.name} = {node.op}({inputs})" + (f" [{attrs}]" if attrs else ""))
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return repr(value.value()) if isinstance(value, TensorAttr) else str(value)


__all__ = ["as_text", "graph", "same_up_to_names"]
