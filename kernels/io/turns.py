"""Threads that parse batches of records take turns.

Most of parsing is done under Python's lock, which each operation of NumPy lets go of for a few microseconds:
two threads at a time hand it to and fro, and take longer than one after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flowengine.core.abandonment import may_wait

_TURN: Final = threading.Lock()
#: So long does a batch wait for its turn: many of a usual size, and little beside one that is far larger.
_TURN_SECONDS: Final = 0.02


@contextmanager
def parsing_turn() -> Iterator[None]:
    """A thread's turn, or none after a while; whoever may not wait has none where it is another's."""
    is_ours = _TURN.acquire(timeout=_TURN_SECONDS if may_wait() else 0)
    try:
        yield
    finally:
        if is_ours:
            _TURN.release()


__all__ = ["parsing_turn"]
