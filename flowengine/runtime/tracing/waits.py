"""Facts that a traced step reads off values and the machine.

The types of outputs, the object that an item waits for, the time for which a thread had no core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import DEAD
from flowengine.runtime.planning.items import Item

#: Seconds for which the thread could run and had no core: the second number of this file, in nanoseconds.
_SCHEDULE: Final = "/proc/thread-self/schedstat"


def core_wait_seconds() -> float | None:
    """Return for how long the current thread has waited for a core; None where Linux does not say."""
    try:
        with open(_SCHEDULE, "rb", buffering=0) as file:
            return int(file.read(100).split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return None


def output_of(value: Any) -> tuple[Any, Any, int] | None:
    """Return (type, shape, bytes) of a value; None for a value that has none, or is dead."""
    if value is None or value is DEAD:
        return None
    try:
        return value.dtype, value.shape, value.nbytes
    except AttributeError:
        return None


def outputs_of(result: Any) -> list[Any]:
    """Return the same for each of a kernel's outputs."""
    if result is None:
        return []
    if isinstance(result, (tuple, list)):
        return [output_of(value) for value in result]
    return [output_of(result)]


def subject_of(item: Item, args: Sequence[Any]) -> str:
    """Name the object that an asynchronous item waits for: its queue, or else its op and node."""
    for value in args:
        name = getattr(value, "name", None)
        if isinstance(name, str) and not isinstance(value, np.ndarray):
            kind = type(value).__name__.removeprefix("Resource").lower()
            return f"{kind} {name!r} ({item.node.op} {item.name!r})"
    return f"{item.node.op} {item.name!r}"


def failure_of(error: BaseException) -> dict[str, Any]:
    """Return the detail of an event that ended with an error: its first line."""
    return {"error": str(error).partition("\n")[0]}


__all__ = ["core_wait_seconds", "failure_of", "output_of", "outputs_of", "subject_of"]
