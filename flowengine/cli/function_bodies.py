"""The bodies of a graph's functions, as far as its nodes call them: what `inspect` finds in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowengine.core.errors import OpError
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.graph import Node, NodeGraph

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph
    from flowengine.ir.functions import FunctionLibrary, UnknownOp


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """A function with the attributes of a call. Where `body` cannot be made, `fault` says why.

    unknown   the nodes of a body that cannot be made, and of those that it leads to, whose op is not known
    """

    name: str
    body: NodeGraph | None
    fault: str = ""
    unknown: tuple[UnknownOp, ...] = ()


def library_of(graph: Graph) -> FunctionLibrary | None:
    """The functions that came with a graph; None where there are none."""
    if graph.library is None:
        return None
    from flowengine.ir.functions import FunctionLibrary

    return FunctionLibrary(graph.library, graph.registry, graph.producer)


def called(graph: Graph) -> list[CalledFunction]:
    """Each function that a node of the graph calls, or of a body that is called, once for its attributes."""
    library = library_of(graph)
    found: dict[Any, CalledFunction] = {}
    if library is None:
        return []
    waiting: list[NodeGraph] = [graph]
    while waiting:
        for function in _functions(waiting.pop(), library):
            key = (function.name, repr(sorted(function.attrs.items())))
            if key in found:
                continue
            try:
                body = library.instantiate(function.name, function.attrs).graph
            except OpError as error:
                unknown = tuple(library.unknown_ops([function.name]))
                found[key] = CalledFunction(function.name, None, str(error), unknown)
            else:
                found[key] = CalledFunction(function.name, body)
                waiting.append(body)
    return list(found.values())


def _functions(graph: NodeGraph, library: FunctionLibrary) -> Iterator[FuncAttr]:
    for node in graph:
        if node.op in library:
            yield FuncAttr(node.op, node.attrs)
        yield from functions_of(node)


def functions_of(node: Node) -> Iterator[FuncAttr]:
    """The functions that a node's attributes name."""
    for value in node.attrs.values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, FuncAttr) and each.name:
                yield each
