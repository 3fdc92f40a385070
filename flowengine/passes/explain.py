"""A graph, and the difference between two, as text and as DOT."""

from __future__ import annotations

from collections.abc import Iterable

from flowengine.ir.graph import Node, NodeGraph


def listing(graph: NodeGraph) -> str:
    """Describe each node in one line, in construction order: `name = Op(input:0, ^control)`."""
    return "\n".join(_line(node) for node in graph) or "(nothing to run)"


def difference(before: NodeGraph, after: NodeGraph) -> str:
    """Describe removed, added and changed nodes in lines, with the sizes of both graphs."""
    removed = [n.name for n in before if n.name not in after]
    added = [n for n in after if n.name not in before]
    changed = [n for n in after if n.name in before and before[n.name] is not n]
    lines = [f"{len(before)} nodes -> {len(after)}"]
    if removed:
        shown = ", ".join(removed[:8]) + (", ..." if len(removed) > 8 else "")
        lines.append(f"removed {len(removed)}: {shown}")
    lines += [f"+ {_line(node)}" for node in added]
    lines += [f"~ {_line(node)}" for node in changed]
    return "\n".join(lines)


def to_dot(graph: NodeGraph) -> str:
    """Return the graph for Graphviz; control edges are dashed."""
    return _dot([(node, "") for node in graph])


def difference_to_dot(before: NodeGraph, after: NodeGraph) -> str:
    """Draw both graphs for Graphviz: removed nodes are grey, new ones green, changed ones blue."""
    nodes = [(node, ", color=gray, fontcolor=gray") for node in before if node.name not in after]
    for node in after:
        old = before.nodes.get(node.name)
        nodes.append((node, ", color=green" if old is None else "" if old is node else ", color=blue"))
    return _dot(nodes)


def _dot(nodes: Iterable[tuple[Node, str]]) -> str:
    lines = ["digraph {", "  node [shape=box];"]
    for node, style in nodes:
        lines.append(f"  {quoted(node.name)} [label={quoted(f'{node.name}: {node.op}')}{style}];")
        for slot, port in enumerate(node.inputs):
            lines.append(
                f"  {quoted(port.node)} -> {quoted(node.name)} [label={quoted(f'{port.slot}:{slot}')}];"
            )
        lines += [
            f"  {quoted(control)} -> {quoted(node.name)} [style=dashed];" for control in node.control_inputs
        ]
    return "\n".join([*lines, "}"])


def _line(node: Node) -> str:
    inputs = [str(port) for port in node.inputs] + [f"^{name}" for name in node.control_inputs]
    return f"{node.name} = {node.op}({', '.join(inputs)})"


def quoted(text: str) -> str:
    """Return a DOT string, whatever the text contains."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
