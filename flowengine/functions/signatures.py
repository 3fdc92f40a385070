"""The signatures that a call requires of the functions that it names.

    If(p, x, then, else) of Tin to Tout     both branches: Tin -> Tout
    While(x, cond, body) of T               cond: T -> a truth value;  body: T -> T
    For(range, x, body) of T                body: int32, T -> T

A graph may say what it likes: a call whose functions do not fit it is found here, before a value of another
type goes on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionBody
from flowengine.ir.graph import Node
from flowengine.ir.names import CALL_OPS, CASE_OPS, FOR_OP, IF_OPS, WHILE_OPS


class FunctionTypes(NamedTuple):
    """The types of arguments and results; `gives` is None for one result that is true or false."""

    takes: tuple[DType, ...]
    gives: tuple[DType, ...] | None


def types_of(body: FunctionBody) -> FunctionTypes | None:
    """Return the types of a body's arguments and results; None if an unknown op computes a result."""
    nodes = body.graph.nodes
    if any(port.slot >= len(nodes[port.node].output_types) for port in body.results):
        return None
    takes, gives = (
        tuple([nodes[port.node].output_types[port.slot].base for port in ports])
        for ports in (body.arguments, body.results)
    )
    return FunctionTypes(takes, gives)


def named_by(node: Node) -> list[tuple[FuncAttr, FunctionTypes]]:
    """The functions that a call names, each with what it has to take and to give.

    In the order of the node's attributes: then and else, the branches, condition and body. The list is empty
    for what is no call, and for a function used as an op, which has the types of that op.
    """
    op, attrs = node.op, node.attrs
    if op in WHILE_OPS:
        carried = _bases(attrs["T"])
        return [
            (attrs["cond"], FunctionTypes(carried, None)),
            (attrs["body"], FunctionTypes(carried, carried)),
        ]
    if op == FOR_OP:
        carried = _bases(attrs["T"])
        return [(attrs["body"], FunctionTypes((dtypes.int32, *carried), carried))]
    if op not in IF_OPS | CASE_OPS | CALL_OPS:
        return []
    types = FunctionTypes(_bases(attrs["Tin"]), _bases(attrs["Tout"]))
    if op in IF_OPS:
        return [(attrs["then_branch"], types), (attrs["else_branch"], types)]
    return [(each, types) for each in (attrs["branches"] if op in CASE_OPS else (attrs["f"],))]


def misfit(name: str, found: FunctionTypes | None, wanted: FunctionTypes) -> str | None:
    """How a function does not fit its call, in words; None where it does, or nothing is known of it."""
    if found is None:
        return None
    assert found.gives is not None
    if found.takes != wanted.takes:
        return f"function '{name}' takes {_shown(found.takes)}, and is given {_shown(wanted.takes)}"
    if wanted.gives is None:
        if len(found.gives) != 1 or found.gives[0] in (dtypes.resource, dtypes.variant):
            return f"function '{name}' gives {_shown(found.gives)}, and one truth value is wanted"
    elif found.gives != wanted.gives:
        return f"function '{name}' gives {_shown(found.gives)}, and {_shown(wanted.gives)} is wanted"
    return None


def _bases(types: Sequence[DType]) -> tuple[DType, ...]:
    return tuple([each.base for each in types])


def _shown(types: Sequence[DType]) -> str:
    return f"({', '.join(map(str, types))})"


__all__ = ["FunctionTypes", "misfit", "named_by", "types_of"]
