"""Docstrings begin with what a thing does or is: a verb, or a noun, never a question word."""

from __future__ import annotations

from typing import Final

from tests.sources import PRODUCT, modules

#: "Whether" stays: it begins what tells a predicate.
_QUESTIONS: Final = frozenset({"What", "Who", "Whose", "Where"})


def begins_with_question(docstring: str) -> bool:
    first, second = [*docstring.split(), ""][:2]
    return first.rstrip(",:") in _QUESTIONS or (first in {"Return", "Returns"} and second == "what")


def test_no_docstring_begins_with_a_question_word() -> None:
    found = [
        f"{name}:{each.line}: {each.docstring.splitlines()[0]}"
        for name, module in modules(*PRODUCT, "tests", "docs/examples").items()
        for each in module.definitions
        if each.docstring and begins_with_question(each.docstring)
    ]
    assert found == []
