"""What lies on a card, and its way from there to host memory."""

from __future__ import annotations

from typing import Final

from flowengine.core.arrays import Array, Value
from flowengine.devices.ordering import StreamEvent

#: The types of CuPy's arrays.
HELD_TYPES: Final = frozenset(
    f"{kind}{bits}"
    for kind, sizes in {
        "int": (8, 16, 32, 64),
        "uint": (8, 16, 32, 64),
        "float": (16, 32, 64),
        "complex": (64, 128),
    }.items()
    for bits in sizes
) | {"bool"}


class CudaCopy:
    """A value on its way to host memory.

    event   when it is there
    """

    __slots__ = ("_pinned", "event")

    def __init__(self, event: StreamEvent, pinned: Array) -> None:
        self.event = event
        self._pinned = pinned

    def value(self) -> Value:
        """The value, rank 0 as a scalar. Only once the event has happened."""
        return self._pinned.copy()[()]

    def lent(self) -> Value:
        """The value in pinned memory, for a socket to take it from. Only once the event has happened."""
        return self._pinned


__all__ = ["HELD_TYPES", "CudaCopy"]
