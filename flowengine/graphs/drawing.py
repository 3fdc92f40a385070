"""A graph as a notebook shows it: its scopes, one inside the other, to be opened by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph
    from flowengine.ir.graph import Node

#: Nodes that are listed of one scope, and scopes of a graph that are drawn at all.
_NODES: Final = 100
_SCOPES: Final = 2000


@dataclass(slots=True)
class _Scope:
    """A name scope: its nodes, the scopes in it, and how many nodes there are in all of them."""

    nodes: list[Node] = field(default_factory=list)
    inner: dict[str, _Scope] = field(default_factory=dict)
    size: int = 0


def as_html(graph: Graph) -> str:
    """Nested lists of the scopes, the outermost open."""
    root, count = _Scope(), 0
    for node in graph:
        scope = root
        scope.size += 1
        for part in node.name.split("/")[:-1]:
            if part not in scope.inner:
                if count >= _SCOPES:
                    break
                scope.inner[part] = _Scope()
                count += 1
            scope = scope.inner[part]
            scope.size += 1
        scope.nodes.append(node)
    return f"<div><code>{escape(repr(graph))}</code>{_inside(graph, root)}</div>"


def _inside(graph: Graph, scope: _Scope) -> str:
    rows = [
        f"<details><summary><b>{escape(name)}</b> ({inner.size})</summary>{_inside(graph, inner)}</details>"
        for name, inner in scope.inner.items()
    ]
    rows += [f"<div>{_line(graph, node)}</div>" for node in scope.nodes[:_NODES]]
    if len(scope.nodes) > _NODES:
        rows.append(f"<div>and {len(scope.nodes) - _NODES} more nodes</div>")
    return f'<div style="margin-left: 1.5em">{"".join(rows)}</div>'


def _line(graph: Graph, node: Node) -> str:
    outputs = ", ".join(
        f"{dtype} {graph.operation(node.name).outputs[slot].shape}"
        for slot, dtype in enumerate(node.output_types[:4])
    )
    inputs = ", ".join(map(str, node.inputs[:8])) + (", ..." if len(node.inputs) > 8 else "")
    return f"<code>{escape(node.name)} = {escape(node.op)}({escape(inputs)})</code> {escape(outputs)}"
