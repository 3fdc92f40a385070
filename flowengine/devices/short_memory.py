"""Retries of an allocation on a device whose own memory is short, before it reports an error.

    block = allocated(lambda: pool.allocate(size), wait=device.synchronize, give_back=pool.trim)

Unfinished work may hold memory that is free after it, and a pool may hold unused memory of other sizes. So it
waits for all work, frees the cached memory, and tries again. This blocks the event loop, because the kernel
that allocates may have written half of its result, and cannot be called again later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flowengine.core.errors import ResourceExhaustedError

T = TypeVar("T")


def allocated(allocate: Callable[[], T], *, wait: Callable[[], None], give_back: Callable[[], None]) -> T:
    """Memory, at the second try if need be.

    Raises the ResourceExhaustedError of the second try, or the error of `wait` if work has failed.
    """
    try:
        return allocate()
    except ResourceExhaustedError:
        pass
    wait()
    give_back()
    return allocate()


__all__ = ["allocated"]
