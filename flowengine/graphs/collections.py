"""Collections: what belongs to a graph beside its nodes, listed under names.

They are lists of values in the order in which they were added. A MetaGraphDef carries those of a graph: a
value has a method that makes its message (`to_proto`), or is a tensor, an operation, a number or a text.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import is_
from typing import Any


class Collections:
    """The collections of one graph: {key: what is listed}."""

    def __init__(self) -> None:
        self._lists: dict[Hashable, list[Any]] = {}

    def add(self, key: Hashable, value: Any) -> None:
        """List something; a second time, if it was listed already."""
        self._lists.setdefault(key, []).append(value)

    def add_once(self, key: Hashable, value: Any) -> None:
        """List something that is not listed yet."""
        found = self._lists.setdefault(key, [])
        if not any(each is value for each in found):
            found.append(value)

    def of(self, key: Hashable) -> list[Any]:
        """Return the values listed under a key, in a list that the caller may change."""
        return list(self._lists.get(key, ()))

    def reference(self, key: Hashable) -> list[Any]:
        """The list itself, made if there is none: what is changed in it is changed in the graph."""
        return self._lists.setdefault(key, [])

    def clear(self, key: Hashable) -> None:
        self._lists.pop(key, None)

    def copy(self) -> Collections:
        """Return collections of the same values, which stay as they are when these change."""
        found = Collections()
        found._lists = {key: list(listed) for key, listed in self._lists.items()}
        return found

    def lists_same(self, other: Collections) -> bool:
        """Return whether both list the same objects under the same keys, in the same order."""
        mine, others = self._lists, other._lists
        return mine.keys() == others.keys() and all(
            len(listed) == len(others[key]) and all(map(is_, listed, others[key]))
            for key, listed in mine.items()
        )

    @property
    def keys(self) -> list[Hashable]:
        return [key for key, listed in list(self._lists.items()) if listed]
