"""Modules that import each other, be it for types alone or within a function, are few and small groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.sources import PRODUCT, Module, modules

#: `Tensor.graph` is a `Graph`, which has the methods that build conditionals, loops and variables of tensors.
GRAPH: Final = "flowengine.graphs.graph"
GRAPH_MODULES: Final = 29
GROUPS: Final = 4
MODULES: Final = 6


def _modules() -> dict[str, Module]:
    """Return the content of each module, by the name under which it is imported."""
    found = {}
    for path, module in modules(*PRODUCT).items():
        name = path.removesuffix(".py").replace("/", ".")
        if not name.startswith("flowengine"):
            name = f"flowengine.{name}"
        found[name.removesuffix(".__init__")] = module
    return found


def _imported(module: Module, known: Mapping[str, Module]) -> Iterator[str]:
    for name, part in module.imports:
        inner = f"{name}.{part}"
        yield inner if inner in known else name


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
    known = _modules()
    edges = {
        name: {other for other in _imported(module, known) if other in known and other != name}
        for name, module in known.items()
    }
    groups = _groups(edges)
    assert len(groups) <= GROUPS, groups
    for group in groups:
        assert len(group) <= (GRAPH_MODULES if GRAPH in group else MODULES), group


def test_groups_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(map(sorted, _groups(edges))) == [["a", "b", "c"], ["d", "e"]]
