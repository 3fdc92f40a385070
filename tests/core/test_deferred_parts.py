"""Deferred parts: those of freed objects, which go in pieces, each once."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.deferred_parts import DeferredParts, current_parts
from flowengine.core.work_pieces import at_once


class Part:
    """A part that may leave parts of its own when it is freed."""

    def __init__(self, freed: list[int], number: int, inner: list[Any] | None = None) -> None:
        self.freed = freed
        self.number = number
        self.inner = inner or []

    def __del__(self) -> None:
        self.freed.append(self.number)
        deferred = current_parts()
        if deferred is not None:
            deferred.add(self.inner)


@given(st.lists(st.integers(1, 300), max_size=4), st.integers(0, 200))
def test_every_part_goes_once_and_few_in_a_piece(counts: list[int], inner: int) -> None:
    freed: list[int] = []
    ended: list[int] = []
    deferred = DeferredParts()
    for count in counts:
        within = [Part(freed, -1) for _ in range(inner)]
        parts = [Part(freed, number, within if not number else None) for number in range(count)]
        deferred.add(parts, lambda part: ended.append(part.number))
    parts = within = []
    most = done = 0
    for _ in deferred.freeing():
        most, done = max(most, len(freed) - done), len(freed)
    assert not deferred
    assert len(ended) == sum(counts)
    assert len(freed) == sum(counts) + inner * len(counts)
    assert most <= 64


def test_only_the_thread_that_collects_leaves_parts() -> None:
    deferred, found = DeferredParts(), []
    assert current_parts() is None
    with deferred:
        assert current_parts() is deferred
        other = threading.Thread(target=lambda: found.append(current_parts()))
        other.start()
        other.join()
        with deferred, DeferredParts() as inner:
            assert current_parts() is inner
        assert current_parts() is deferred
    assert current_parts() is None
    assert found == [None]


def test_parts_that_others_hold_stay() -> None:
    freed: list[int] = []
    kept = Part(freed, 1)
    ref = weakref.ref(kept)
    deferred = DeferredParts()
    deferred.add([kept])
    at_once(deferred.freeing())
    assert ref() is kept
    del kept
    assert ref() is None
