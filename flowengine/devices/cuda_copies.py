"""Values in a card's memory, and their copies to host memory."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Final

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import ResourceExhaustedError
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


#: cudaHostAllocPortable: pinned for every context of the process.
_PORTABLE: Final = 1
#: cudaErrorMemoryAllocation.
_NO_MEMORY: Final = 2


class CardPinnedSource:
    """CuPy's calls that pin memory: see `pinned.PinnedSource`."""

    def __init__(self, cupy: Any, ordinal: int) -> None:
        """`ordinal` is the card in whose context memory is pinned, for all of them."""
        self._runtime = cupy.cuda.runtime
        self._card = partial(cupy.cuda.Device, ordinal)

    def allocate_pinned(self, size: int) -> int:
        try:
            with self._card():
                return int(self._runtime.hostAlloc(size, _PORTABLE))
        except self._runtime.CUDARuntimeError as error:
            if error.status != _NO_MEMORY:
                raise
            raise ResourceExhaustedError(f"the host cannot pin {size:,} bytes: {error}") from None

    def free_pinned(self, address: int) -> None:
        # If the context has ended, its memory is free already.
        with suppress(self._runtime.CUDARuntimeError):
            self._runtime.freeHost(address)


class CudaCopy:
    """A value on its way to host memory.

    event   the end of the copy
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


__all__ = ["HELD_TYPES", "CardPinnedSource", "CudaCopy"]
