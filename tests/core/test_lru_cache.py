"""Entries that are asked for stay, the others go, oldest first."""

from __future__ import annotations

import doctest

from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import lru_cache
from flowengine.core.lru_cache import LruCache


def test_the_example_is_true() -> None:
    assert doctest.testmod(lru_cache).failed == 0


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from(["get", "put", "pop"]), st.integers(0, 6))))
def test_it_is_a_list_in_the_order_of_use(size: int, actions: list[tuple[str, int]]) -> None:
    kept: LruCache[int, str] = LruCache(size)
    expected: list[int] = []
    for action, key in actions:
        known = key in expected
        if known:
            expected.remove(key)
        if action == "put":
            gone = kept.put(key, str(key))
            expected.append(key)
            oldest = expected.pop(0) if len(expected) > size else None
            assert gone == (None if oldest is None else (oldest, str(oldest)))
        elif action == "get":
            assert kept.get(key) == (str(key) if known else None)
            expected += [key] * known
        else:
            assert kept.pop(key) == (str(key) if known else None)
        assert list(kept.values()) == list(map(str, expected))
        assert len(kept) == len(expected)
        assert all(each in kept for each in expected)
    kept.clear()
    assert not len(kept)
