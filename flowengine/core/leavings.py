"""Memory freed in pieces: to free a large plan takes tens of milliseconds, which no event loop should wait.

    leavings = Leavings()
    with leavings:
        plans.clear()                    # a plan that is freed here leaves its parts
    job = Piecework(leavings.freeing())  # which a closing session frees a slice at a time

Elsewhere the same plan frees its parts at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from flowengine.core.work_pieces import Pieces

#: So many parts make a piece: to free one takes 1 to 3 us.
_PIECE: Final = 64
#: To free fewer parts takes less than half a millisecond.
LEAVINGS_MIN: Final = 256


class _Collecting(threading.local):
    """The leavings that plans freed in this thread leave their parts to."""

    leavings: Leavings | None = None


_collecting: Final = _Collecting()


class Leavings:
    """Parts of freed objects. As a context it collects those of this thread; it may be entered repeatedly."""

    __slots__ = ("_before", "_parts")

    def __init__(self) -> None:
        #: Lists of parts, with a function that is called with each.
        self._parts: list[tuple[list[Any], Callable[[Any], object] | None]] = []
        self._before: list[Leavings | None] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __enter__(self) -> Leavings:
        self._before.append(_collecting.leavings)
        _collecting.leavings = self
        return self

    def __exit__(self, *_: object) -> None:
        _collecting.leavings = self._before.pop()

    def add(self, parts: list[Any], end: Callable[[Any], object] | None = None) -> None:
        """Free the parts of a list before those that were added earlier; `end` is called with each."""
        if parts:
            self._parts.append((parts, end))

    def freeing(self) -> Pieces[None]:
        """Free the parts, in pieces."""
        while self._parts:
            parts, end = self._parts.pop()
            gone, parts[-_PIECE:] = parts[-_PIECE:], []
            self.add(parts, end)
            with self:  # objects that are freed with them leave their parts as well
                if end is not None:
                    for part in gone:
                        end(part)
                    del part
                gone.clear()
            yield


def collecting() -> Leavings | None:
    """Return the leavings that objects freed in this thread leave their parts to, if there are any."""
    return _collecting.leavings


__all__ = ["LEAVINGS_MIN", "Leavings", "collecting"]
