"""Docstrings as Markdown: columns become a list of definitions, indented text and prompts blocks of Python.

    fetches     "node:slot" for a value            `fetches`
                or "node" to run a node       ->   :   "node:slot" for a value or "node" to run a node

The pages of the reference are made of the docstrings as they stand in the source, which are written to be
read there. mkdocstrings loads this file; see `.mkdocs.yml`.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

#: The first line of a column block: a term, two spaces or more, what it is.
_TERM = re.compile(r"(?P<term>\S(?:.*?\S)?)(?P<gap> {2,})(?P<text>\S.*)\Z")


def as_markdown(text: str) -> str:
    """The text with its column blocks as definition lists and its indented blocks as Python."""
    return "\n\n".join(_paragraph(each) for each in re.split(r"\n\s*\n", text))


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if lines and lines[0].startswith(">>> "):
        return "\n".join(["```pycon", *lines, "```"])
    if all(line.startswith("    ") for line in lines):
        return "\n".join(["```python", *(line[4:] for line in lines), "```"])
    entries = _entries(lines)
    if entries is None:
        return text
    return "\n\n".join(f"`{term}`\n:   {' '.join(said)}" for term, said in entries)


def _entries(lines: list[str]) -> list[tuple[str, list[str]]] | None:
    """[(term, what is said of it)] of a column block, or None where the lines are something else."""
    entries: list[tuple[str, list[str]]] = []
    column = 0
    for line in lines:
        first = _TERM.match(line)
        if first is not None and (not entries or first.start("text") == column):
            column = first.start("text")
            entries.append((first["term"], [first["text"]]))
        elif entries and line[:column].strip() == "":
            entries[-1][1].append(line.strip())
        else:
            return None
    return entries


class ColumnDocstrings(griffe.Extension):
    """Rewrites each docstring that is loaded, and puts a link to the source behind it."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value) + source_link(obj)


def source_link(obj: griffe.Object) -> str:
    """Return a link to the line that defines a function or class; `hooks.py` writes its page."""
    if not isinstance(obj, griffe.Function | griffe.Class) or obj.lineno is None:
        return ""
    name = obj.relative_package_filepath.as_posix()
    return f'\n\n<a class="fe-source" href="../source/{name}.html#L{obj.lineno}">source</a>'
