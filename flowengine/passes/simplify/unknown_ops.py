"""Ops that a step needs and nobody has registered: all are reported at once, before anything is planned.

A branch or a loop's body that has one is left alone, for it may never run; a function that is simply called
is looked into.
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
    """The graph, which has been pruned, as it is.

    Raises NotFoundError with `missing_op` where the step needs ops that have no definition. It names all that
    the step may reach, in functions too.
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
    """Say why an op is not here, as far as that is known, and how it can be brought."""
    why = reason(op)
    known = "" if why == NOT_YET else f"it is left out ({why}); "
    return f"{known}a module of yours can define it, with its kernel (--import MODULE on the command line)"


def _reached(graph: Iterable[Node], library: FunctionLibrary | None) -> list[UnknownOp]:
    """The unknown ops of all functions that a graph may call, taken or not."""
    if library is None:
        return []
    names = [function.name for node in graph for function in functions_in(node)]
    return library.unknown_ops(dict.fromkeys([*names, *(node.op for node in graph if node.op in library)]))


def _call_unknown(
    graph: Iterable[Node], library: FunctionLibrary, context: PassContext, seen: set[str]
) -> bool:
    """Whether a function that the nodes simply call needs an unknown op."""
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
    """Whether what the body gives and does needs an unknown op, and not only what it throws away."""
    try:
        body = library.instantiate(function.name, function.attrs)
    except OpError as error:
        return error.missing_op is not None
    request = replace(context, feeds=body.arguments, fetches=body.results, targets=body.targets)
    needed = prune(body.graph, request)
    return bool(unknown_nodes(needed)) or _call_unknown(needed, library, context, seen)


__all__ = ["refuse_unknown_ops"]
