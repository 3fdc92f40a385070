"""Alignment of two clocks by round trips, after Cristian.

    ours     before ─────────────────────────── after
                     \\ question        answer /
    theirs              ──────── read ────────

Their clock was read at some moment between ours `before` and `after`. So it shows `read - middle` more than
ours, and this is wrong by at most half of the round trip. The shortest of several round trips says most.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Self

#: Reading a clock elsewhere takes as long as the network; of so many, one is likely to wait for nothing else.
_ROUND_TRIPS: Final = 5


class ClockOffset(NamedTuple):
    """The difference of two clocks.

    seconds   what the other clock shows more than ours
    error     how far that may be off, in either direction
    """

    seconds: float
    error: float

    def beyond(self, further: ClockOffset) -> ClockOffset:
        """Return the offset of a third clock, whose offset from the other one is known."""
        return ClockOffset(self.seconds + further.seconds, self.error + further.error)

    @classmethod
    def of_round_trip(cls, before: float, read: float, after: float) -> Self:
        """Return the offset by one round trip: their clock was `read` between ours `before` and `after`."""
        return cls(read - (before + after) / 2, (after - before) / 2)


#: The offset of a clock from itself.
NO_OFFSET: Final = ClockOffset(0.0, 0.0)


async def aligned(ask: Callable[[], Awaitable[float]], clock: Callable[[], float]) -> ClockOffset:
    """Return the offset of another clock from ours, by the shortest of several round trips.

    ask     reads the other clock, there; its errors are raised
    clock   reads ours
    """
    found: ClockOffset | None = None
    for _ in range(_ROUND_TRIPS):
        before = clock()
        read = await ask()
        offset = ClockOffset.of_round_trip(before, read, clock())
        if found is None or offset.error < found.error:
            found = offset
    assert found is not None, "there are round trips"
    return found


__all__ = ["NO_OFFSET", "ClockOffset", "aligned"]
