"""Memory freed in pieces: to free a large plan takes tens of milliseconds, which no event loop should wait.

    deferred = DeferredParts()
    with deferred:
        plans.clear()                    # a plan that is freed here leaves its parts
    job = Piecework(deferred.freeing())  # which a closing session frees a slice at a time

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
DEFERRED_MIN: Final = 256


class _ThreadParts(threading.local):
    """A thread and the place for the parts of objects that are freed in it."""

    parts: DeferredParts | None = None


_thread: Final = _ThreadParts()


class DeferredParts:
    """Parts of freed objects. As a context it collects those of this thread; it may be entered repeatedly."""

    __slots__ = ("_before", "_parts")

    def __init__(self) -> None:
        #: Lists of parts, with a function that is called with each.
        self._parts: list[tuple[list[Any], Callable[[Any], object] | None]] = []
        self._before: list[DeferredParts | None] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __enter__(self) -> DeferredParts:
        self._before.append(_thread.parts)
        _thread.parts = self
        return self

    def __exit__(self, *_: object) -> None:
        _thread.parts = self._before.pop()

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


def current_parts() -> DeferredParts | None:
    """Return where objects that are freed in this thread leave their parts; None if nowhere."""
    return _thread.parts


__all__ = ["DEFERRED_MIN", "DeferredParts", "current_parts"]
