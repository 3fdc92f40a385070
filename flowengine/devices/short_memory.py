"""Retries of an allocation on a device whose own memory is short, before it reports an error.

    block = allocated(lambda: pool.allocate(size), wait=device.synchronize, give_back=pool.trim)

What is in flight may be the last to use memory that is free after it, and a pool may hold memory of sizes
that nobody asks for. So all work is waited for, what is cached is given back, and it is tried once more. An
event loop stands still for that, as for nothing else: a kernel that asks may have written half of what it
writes, and cannot be called again later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flowengine.core.errors import ResourceExhaustedError

T = TypeVar("T")


def allocated(allocate: Callable[[], T], *, wait: Callable[[], None], give_back: Callable[[], None]) -> T:
    """Memory, at the second try if need be.

    Raises the ResourceExhaustedError of the second try, or what `wait` raises of work that failed.
    """
    try:
        return allocate()
    except ResourceExhaustedError:
        pass
    wait()
    give_back()
    return allocate()


__all__ = ["allocated"]
