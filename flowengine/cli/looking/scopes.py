"""`inspect --by scope`: nodes and parameters of each scope; and element-wise ops that repeat both inputs.

The paper's first advice on porting a model: count its parameters exactly, and look for what broadcasts where
it was not meant to. [n] with [n, 1] gives [n, n], without an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from flowengine.cli import overview
from flowengine.cli.failure import printable
from flowengine.cli.overview import VariableFacts

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: Scopes are folded until so few rows are left.
_ROWS_MAX: Final = 50
#: The ops of a scope that are named.
_OPS_SHOWN: Final = 3
_HEAD: Final = ("nodes", "parameters", "scope", "ops")


@dataclass(frozen=True, slots=True)
class ScopeCount:
    """The contents of one scope, inner scopes included where they have no row of their own.

    scope        its name; "" for nodes outside of all scopes
    parameters   elements of its variables and of its float constants of more than 8 elements
    ops          {op: count}, the most frequent first
    """

    scope: str
    nodes: int
    parameters: int
    ops: dict[str, int]


def counts_by_scope(graph: Graph, variables: Sequence[VariableFacts]) -> list[ScopeCount]:
    """Count a graph by scope, as deep as a screen has rows for; in the order of the scopes' first nodes."""
    parameters = {each.name: each.elements or 0 for each in variables}
    for name, value in overview.large_constants(graph):
        parameters[name] = value.shape.num_elements() or 0
    depth = max((node.name.count("/") for node in graph), default=0)
    while depth > 1 and len({_scope(node.name, depth) for node in graph}) > _ROWS_MAX:
        depth -= 1
    ops: dict[str, Counter[str]] = {}
    sums: Counter[str] = Counter()
    for node in graph:
        scope = _scope(node.name, depth)
        ops.setdefault(scope, Counter())[node.op] += 1
    for name, count in parameters.items():
        scope = _scope(name, depth)
        ops.setdefault(scope, Counter())
        sums[scope] += count
    return [
        ScopeCount(scope, counts.total(), sums[scope], dict(counts.most_common()))
        for scope, counts in ops.items()
    ]


def _scope(name: str, depth: int) -> str:
    return "/".join(name.split("/")[:-1][:depth])


def scope_table(counts: Sequence[ScopeCount]) -> str:
    """Return the counts as a table with the total in its last row."""
    rows = [_HEAD]
    for each in counts:
        ops = ", ".join(f"{count} {op}" for op, count in [*each.ops.items()][:_OPS_SHOWN])
        more = len(each.ops) - _OPS_SHOWN
        ops += f", {more} more" if more > 0 else ""
        rows.append((f"{each.nodes:,}", f"{each.parameters:,}", each.scope or "(no scope)", ops))
    nodes, parameters = (sum(getattr(each, name) for each in counts) for name in ("nodes", "parameters"))
    rows.append((f"{nodes:,}", f"{parameters:,}", "total", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {printable(row[2]):{widths[2]}}  {row[3]}".rstrip()
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def broadcasting_both(graph: Graph) -> Iterator[dict[str, str]]:
    """Yield each element-wise node whose two inputs both grow to the other's shape: name, op, shapes."""
    from flowengine.ir.traits import Broadcasts

    for node in graph:
        if not node.has(Broadcasts) or len(node.inputs) != 2:
            continue
        shapes = [overview.shape_of(graph, port) for port in node.inputs]
        dims = [shape.dims for shape in shapes]
        if dims[0] is not None and dims[1] is not None and _both_grow(dims[0], dims[1]):
            yield {"name": node.name, "op": node.op, "x": str(shapes[0]), "y": str(shapes[1])}


def _both_grow(x: Sequence[int | None], y: Sequence[int | None]) -> bool:
    """Return whether each of two shapes has a dimension that the other one's is repeated along."""
    pairs = [*zip_longest(reversed(x), reversed(y), fillvalue=1)]
    return any(a == 1 != b for a, b in pairs) and any(b == 1 != a for a, b in pairs)


__all__ = ["ScopeCount", "broadcasting_both", "counts_by_scope", "scope_table"]
