"""Moves bytes into buffers that lie one behind another."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def behind(views: list[memoryview], count: int) -> list[memoryview]:
    """Return the views without their first `count` bytes."""
    for index, view in enumerate(views):
        if count < len(view):
            return [view[count:], *views[index + 1 :]]
        count -= len(view)
    return []


def place(views: Sequence[memoryview], data: bytes | memoryview) -> int:
    """Copy as much of `data` into the views as fits; return the number of bytes."""
    done = 0
    for view in views:
        size = min(len(view), len(data) - done)
        view[:size] = data[done : done + size]
        done += size
        if done == len(data):
            break
    return done


def place_pieces(views: Sequence[memoryview], pieces: deque[memoryview]) -> int:
    """Move bytes from the front of the pieces into the views, as many as exist or fit; return how many."""
    done = 0
    for buffer in views:
        view = buffer
        while view and pieces:
            piece = pieces.popleft()
            count = place([view], piece)
            if count < len(piece):
                pieces.appendleft(piece[count:])
            view = view[count:]
            done += count
        if view:
            break
    return done


__all__ = ["behind", "place", "place_pieces"]
