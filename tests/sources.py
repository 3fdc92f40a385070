"""The definitions and imports of each module of the tree, read once for all tests that look at them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PRODUCT: Final = ("flowengine", "kernels", "transport")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Definition:
    """A module, class or function.

    lines        from its first line to its last
    body_lines   of a function, the lines below its signature and docstring
    docstring    empty where it has none
    """

    name: str
    is_class: bool
    line: int
    lines: int
    body_lines: int
    docstring: str


@dataclass(slots=True)
class Module:
    """The content of a module, nested definitions and imports within functions included.

    imports   (the module, the name that is imported from it or "")
    """

    definitions: list[Definition] = field(default_factory=list)
    imports: list[tuple[str, str]] = field(default_factory=list)

    def classes(self) -> Iterator[Definition]:
        return (each for each in self.definitions if each.is_class)


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    """(path from the root, text) of each module, links not followed."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(("flowengine/kernels/", "flowengine/transport/", "flowengine/ir/proto/")):
                yield name, path.read_text(encoding="utf-8")


@cache
def module(name: str) -> Module:
    """Return the content of the module at a path from the root."""
    found = Module()
    # A tree has no cycles, and the collector would look at its nodes again and again.
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            _note(found, node)
    finally:
        if is_collecting:
            gc.enable()
    return found


def modules(*folders: str) -> dict[str, Module]:
    """{path from the root: content} of each module, links not followed."""
    return {name: module(name) for name, _ in sources(*folders)}


def _note(found: Module, node: ast.AST) -> None:
    if isinstance(node, ast.Import):
        found.imports.extend((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        found.imports.extend((node.module, alias.name) for alias in node.names)
    elif isinstance(node, ast.Module):
        found.definitions.append(Definition("", False, 1, 0, 0, ast.get_docstring(node) or ""))
    elif isinstance(node, ast.ClassDef | _Function):
        is_class = isinstance(node, ast.ClassDef)
        found.definitions.append(
            Definition(
                node.name,
                is_class,
                node.lineno,
                (node.end_lineno or 0) - node.lineno,
                0 if is_class else _body_lines(node),
                ast.get_docstring(node) or "",
            )
        )


def _body_lines(node: ast.ClassDef | _Function) -> int:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


__all__ = ["PRODUCT", "ROOT", "Definition", "Module", "module", "modules", "sources"]
