"""The cyclic garbage collector, paused where many objects are made and none of them is garbage.

Reading a graph of 36,000 nodes, planning and compiling it makes millions of objects that all stay; the
collector would look through them again and again, for a third of the time. Nor does it look when the pause
ends: what was made meanwhile counts as old at once, and is looked through when all is.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_enabled = False
#: Counting what is frozen takes as long as there is much of it. So a host that has once frozen objects is
#: taken to keep them so, and is not asked again.
_host_freezes = False


@contextmanager
def collection_paused() -> Iterator[None]:
    """Keep the cyclic collector from running meanwhile. Pauses may nest, and overlap on several threads.

    The collector runs again when the last pause ends, if it did before the first.
    """
    global _pauses, _was_enabled, _host_freezes
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
                _host_freezes = _host_freezes or gc.get_freeze_count() > 0
                if not _host_freezes:
                    # All that is tracked goes to the oldest generation, without being looked at. A host
                    # that keeps objects frozen for good keeps them so.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()


__all__ = ["collection_paused"]
