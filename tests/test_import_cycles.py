"""Modules that import each other, be it for types alone or within a function, are few and small groups."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: `Tensor.graph` is a `Graph`, which has the methods that build conditionals, loops and variables of tensors.
GRAPH: Final = "flowengine.graphs.graph"
GRAPH_MODULES: Final = 29
GROUPS: Final = 4
MODULES: Final = 6


def _modules() -> dict[str, ast.Module]:
    """Return the tree of each module, by the name under which it is imported."""
    found = {}
    for top in ("flowengine", "kernels", "transport"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if path.is_relative_to(ROOT / "flowengine" / top):
                continue  # the link to the folder beside it
            name = ".".join(parts if top == "flowengine" else ("flowengine", *parts))
            found[name.removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def _imported(tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def _groups(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of more than one node (Tarjan 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in edges[name]:
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            at = stack.index(name)
            group = set(stack[at:])
            del stack[at:]
            if len(group) > 1:
                found.append(group)

    for name in edges:
        if name not in number:
            visit(name)
    return found


def test_few_modules_import_each_other() -> None:
    modules = _modules()
    edges = {
        name: {other for other in _imported(tree, modules) if other in modules and other != name}
        for name, tree in modules.items()
    }
    groups = _groups(edges)
    assert len(groups) <= GROUPS, groups
    for group in groups:
        assert len(group) <= (GRAPH_MODULES if GRAPH in group else MODULES), group


def test_groups_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(map(sorted, _groups(edges))) == [["a", "b", "c"], ["d", "e"]]
