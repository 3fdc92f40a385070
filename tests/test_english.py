"""Docstrings begin with what a thing does or is: a verb, or a noun, never a question word."""

from __future__ import annotations

import ast
from typing import Final

from tests.test_house import sources

#: "Whether" stays: it begins what tells a predicate.
_QUESTIONS: Final = frozenset({"What", "Who", "Whose", "Where"})
_DOCUMENTED: Final = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def begins_with_question(docstring: str) -> bool:
    first, second = [*docstring.split(), ""][:2]
    return first.rstrip(",:") in _QUESTIONS or (first in {"Return", "Returns"} and second == "what")


def test_no_docstring_begins_with_a_question_word() -> None:
    found = []
    for name, text in sources("flowengine", "kernels", "transport", "tests", "docs/examples"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, _DOCUMENTED):
                docstring = ast.get_docstring(node)
                if docstring and begins_with_question(docstring):
                    line = 1 if isinstance(node, ast.Module) else node.lineno
                    found.append(f"{name}:{line}: {docstring.splitlines()[0]}")
    assert found == []
