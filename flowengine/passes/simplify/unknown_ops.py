"""Unregistered ops that a step needs: all are reported at once, before anything is planned.

A branch or a loop's body with such an op is left alone, because it may never run; a function that is simply
called is examined.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flowengine.core.errors import OpError
from flowengine.functions.bodies import functions_in
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionLibrary, UnknownOp, unknown_nodes, unregistered
from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.names import CALL_OPS
from flowengine.ops.left_out import NOT_YET, reason
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.prune import prune


def refuse_unknown_ops(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph, which has been pruned, unchanged.

    Raises NotFoundError with `missing_op` if the step needs ops that have no definition. It names all that
    the step may reach, also in functions.
    """
    registry = context.registry
    if registry is None:
        return graph  # its own process knows the ops
    found = unknown_nodes(graph, context.function)
    library = None if graph.library is None else FunctionLibrary(graph.library, registry, graph.producer)
    if not found and (library is None or not _call_unknown(graph, library, context, set())):
        return graph
    error = unregistered([*found, *_reached(graph, library)])
    assert error.missing_op is not None
    error.message += f": {_advice(error.missing_op)}"
    raise error


def _advice(op: str) -> str:
    """Explain why an op is missing, as far as that is known, and how to get it."""
    why = reason(op)
    known = "" if why == NOT_YET else f"it is left out ({why}); "
    return f"{known}a module of yours can define it, with its kernel (--import MODULE on the command line)"


def _reached(graph: Iterable[Node], library: FunctionLibrary | None) -> list[UnknownOp]:
    """Return the unknown ops of all functions that a graph may call, taken or not."""
    if library is None:
        return []
    names = [function.name for node in graph for function in functions_in(node)]
    return library.unknown_ops(dict.fromkeys([*names, *(node.op for node in graph if node.op in library)]))


def _call_unknown(
    graph: Iterable[Node], library: FunctionLibrary, context: PassContext, seen: set[str]
) -> bool:
    """Return whether a function that the nodes simply call needs an unknown op."""
    for node in graph:
        plain = functions_in(node) if node.op in CALL_OPS else []
        for function in [FuncAttr(node.op, node.attrs)] if node.op in library else plain:
            if function.name not in seen:
                seen.add(function.name)
                if library.unknown_ops([function.name]) and _needs_unknown(function, library, context, seen):
                    return True
    return False


def _needs_unknown(
    function: FuncAttr, library: FunctionLibrary, context: PassContext, seen: set[str]
) -> bool:
    """Return whether the results and effects of the body need an unknown op, not only unused values."""
    try:
        body = library.instantiate(function.name, function.attrs)
    except OpError as error:
        return error.missing_op is not None
    request = replace(context, feeds=body.arguments, fetches=body.results, targets=body.targets)
    needed = prune(body.graph, request)
    return bool(unknown_nodes(needed)) or _call_unknown(needed, library, context, seen)


__all__ = ["refuse_unknown_ops"]
