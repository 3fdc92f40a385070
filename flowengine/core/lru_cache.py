"""A map that holds so many entries at most: who has not been asked for the longest goes first.

>>> kept = LruCache(2)
>>> kept.put("a", 1), kept.put("b", 2), kept.get("a"), kept.put("c", 3)
(None, None, 1, ('b', 2))
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """At most `size_max` entries; `get` and `put` make an entry the newest."""

    __slots__ = ("_entries", "_size_max")

    def __init__(self, size_max: int) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._size_max = size_max

    def get(self, key: K) -> V | None:
        """The value, or None."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> tuple[K, V] | None:
        """Keep a value; the entry that had to go for it, if one had to."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        return self._entries.popitem(last=False) if len(self._entries) > self._size_max else None

    def pop(self, key: K) -> V | None:
        """Remove an entry; its value, or None."""
        return self._entries.pop(key, None)

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()

    def values(self) -> Iterator[V]:
        """The values, the oldest first."""
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries


__all__ = ["LruCache"]
