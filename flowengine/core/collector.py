"""The cyclic garbage collector, paused where many objects are made and none of them is garbage.

Reading a graph of 36,000 nodes, planning and compiling it makes millions of objects that all stay; the
collector would look through them again and again, for a third of the time. Nor does it look when the pause
ends, if many were made: they count as old at once, and are looked through when all is.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_enabled = False
#: Objects made in a pause that are worth to be called old at once. The collector looks through fewer in 0.1
#: ms; counting what a host has frozen takes several, on its event loop.
MANY = 2_000
#: Counting what is frozen takes as long as there is much of it. So a host that has once frozen objects is
#: taken to keep them so, and is not asked again.
_host_freezes = False


@contextmanager
def collection_paused() -> Iterator[None]:
    """Keep the cyclic collector from running meanwhile. Pauses may nest, and overlap on several threads.

    The collector runs again when the last pause ends, if it did before the first.
    """
    global _pauses, _was_enabled
    with _lock:
        if not _pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_enabled:
                if gc.get_count()[0] >= MANY:
                    _call_all_old()
                gc.enable()


def _call_all_old() -> None:
    """All that is tracked goes to the oldest generation, without being looked at.

    A host that keeps objects frozen for good keeps them so.
    """
    global _host_freezes
    _host_freezes = _host_freezes or gc.get_freeze_count() > 0
    if not _host_freezes:
        gc.freeze()
        gc.unfreeze()


__all__ = ["collection_paused"]
