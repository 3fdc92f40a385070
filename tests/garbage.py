"""A check that engine objects need no garbage collector: afterwards it finds none of them."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np


@asynccontextmanager
async def no_garbage() -> AsyncIterator[None]:
    """Meanwhile the collector is off; afterwards it must find nothing of ours, and nothing large."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [each for each in gc.garbage if is_ours(each)]
        names = Counter(type(each).__name__ for each in found)
        found.clear()
        assert not names, f"the collector finds {dict(names)}"
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.collect()


def is_ours(each: object) -> bool:
    """Whether this is an object of the engine's, or holds many bytes."""
    if isinstance(each, bytes | bytearray):
        return len(each) > 1024
    if isinstance(each, list | tuple | dict):
        values = each.values() if isinstance(each, dict) else each
        return any(isinstance(value, np.ndarray) and value.nbytes > 1024 for value in values)
    return type(each).__module__.startswith("flowengine.") and type(each).__name__ not in OF_A_GRAPH


#: The parts of a graph, and of a plan's frames, know each other; a step, a session and a connection do not.
OF_A_GRAPH = {"StaticFrame", "FrameState", "Item", "ItemTimes", "Node", "NodeDef", "_Origin"}
