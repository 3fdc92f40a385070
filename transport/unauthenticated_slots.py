"""Places for connections that have yet to authenticate: a bounded number, shared among their addresses.

    slots = UnauthenticatedSlots(256, young_seconds=1.0)
    place = slots.enter("10.0.0.7", now, leave)      # None: no room
    ...
    slots.leave(place)

If all places are taken, a newcomer gets that of the oldest connection of the address that has most of them,
unless that one is young. One machine that opens connections without end takes them from itself, and from no
other.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Final

#: Bits of an IPv6 address that belong to one customer, who chooses the rest freely.
_PREFIX_BITS: Final = 64


def origin_of(address: str) -> str:
    """Return the part of "tcp://10.0.0.7:43210" that identifies a machine: host, or IPv6 network."""
    text = address.partition("://")[2] or address
    host = text.rpartition(":")[0].strip("[]") or text
    try:
        number = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if number.version == 4:
        return host
    if number.ipv4_mapped is not None:
        return str(number.ipv4_mapped)
    return str(ipaddress.ip_network((number, _PREFIX_BITS), strict=False))


class UnauthenticatedSlot:
    """One place, from the time when it is taken until it is left or taken away."""

    __slots__ = ("origin", "since", "taken_away")

    def __init__(self, origin: str, since: float, taken_away: Callable[[], None]) -> None:
        self.origin = origin
        self.since = since
        #: Called when another connection gets the place.
        self.taken_away = taken_away


class UnauthenticatedSlots:
    """The places of one server. Times are seconds of any clock.

    most           the number of places
    young_seconds  no connection loses a younger place
    """

    def __init__(self, most: int, *, young_seconds: float) -> None:
        self._most = most
        self._young = young_seconds
        #: {origin: its places, the oldest first}
        self._places: dict[str, dict[UnauthenticatedSlot, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def enter(self, origin: str, now: float, taken_away: Callable[[], None]) -> UnauthenticatedSlot | None:
        """Return a place for a newcomer of this origin, perhaps another's; None if none can be had now."""
        if self._count >= self._most:
            oldest = self._oldest_of_most()
            if now < oldest.since + self._young:
                return None
            self.leave(oldest)
            oldest.taken_away()
        place = UnauthenticatedSlot(origin, now, taken_away)
        self._places.setdefault(origin, {})[place] = None
        self._count += 1
        return place

    def leave(self, place: UnauthenticatedSlot) -> None:
        """Free a place; without effect on one that was left, or taken away."""
        places = self._places.get(place.origin)
        if places is None or place not in places:
            return
        del places[place]
        self._count -= 1
        if not places:
            del self._places[place.origin]

    def room_at(self, origin: str) -> float | None:
        """Return the time to try again; None for the origin that has most of the places."""
        oldest = self._oldest_of_most()
        return None if oldest.origin == origin else oldest.since + self._young

    def _oldest_of_most(self) -> UnauthenticatedSlot:
        most = max(self._places.values(), key=len)
        return next(iter(most))


__all__ = ["UnauthenticatedSlot", "UnauthenticatedSlots", "origin_of"]
