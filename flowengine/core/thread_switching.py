"""The interpreter's switching between threads, made quicker while a thread works long beside an event loop.

A thread that wants to go on waits up to 5 ms for each one that computes, at each call that has released the
interpreter's lock. An event loop does so several times in a pass, and so is late by tens of milliseconds.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Seconds after which a thread leaves the interpreter to one that waits for it.
_QUICK_SECONDS: Final = 0.0005

_lock = threading.Lock()
_uses = 0
_usual_seconds = 0.0


@contextmanager
def switching_quickly() -> Iterator[None]:
    """Let threads take turns of half a millisecond meanwhile. Uses may nest, and overlap on several threads.

    The interval of before is back when the last use ends; a shorter one stays as it is, and so does one that
    the program has set meanwhile.
    """
    global _uses, _usual_seconds
    with _lock:
        if not _uses:
            _usual_seconds = sys.getswitchinterval()
            if _usual_seconds > _QUICK_SECONDS:
                sys.setswitchinterval(_QUICK_SECONDS)
        _uses += 1
    try:
        yield
    finally:
        with _lock:
            _uses -= 1
            is_ours = abs(sys.getswitchinterval() - _QUICK_SECONDS) < 1e-6
            if not _uses and is_ours:
                sys.setswitchinterval(_usual_seconds)


__all__ = ["switching_quickly"]
