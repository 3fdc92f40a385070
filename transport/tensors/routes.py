"""Numbers for the edges that tensors take: a small tensor's header names its edge in a byte or two. Sans-I/O.

Step after step the same edges carry a tensor, and the name of an edge is longer than most headers. So each
side numbers the edges when it first sends along them, and tells the other. The order within the connection
ensures that a number means the same at both ends; a message whose header waits for its turn, such as that of
a large tensor, names its edge in full.

Both sides hold a bounded number of edges and characters. A sender whose table is full begins again at 1, by
which both forget all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar

from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.errors import RemoteProtocolError

ROUTES_MAX: Final = 16_384
#: Characters in the names of all routes of one direction, and in those of one.
ROUTES_TEXT_MAX: Final = 4 * 1024 * 1024
ROUTE_TEXT_MAX: Final = 900

#: (source device, source incarnation, edge, target device): `key[1:5]`, which is the same in every step
Route: TypeAlias = tuple[str, int, str, str]

#: The data that is kept for a route beside its number.
K = TypeVar("K")


class NumberedRoute(Generic[K]):
    """A route that this side has numbered, and the data kept for it."""

    __slots__ = ("kept", "number")

    def __init__(self, number: int, kept: K) -> None:
        self.number = number
        self.kept = kept


class RoutesOut(Generic[K]):
    """The edges that this side sends along."""

    __slots__ = ("_routes", "_text")

    def __init__(self) -> None:
        self._routes: dict[Route, NumberedRoute[K]] = {}
        self._text = 0

    def find(self, route: Route) -> NumberedRoute[K] | None:
        """Return the route with its number; None if it has none yet."""
        return self._routes.get(route)

    def add(self, route: Route, keep: Callable[[int], K]) -> NumberedRoute[K]:
        """Give a route a number, to be sent before it is used. `keep(number)` makes the data kept for it."""
        text = _text_of(route)
        if len(self._routes) >= ROUTES_MAX or self._text + text > ROUTES_TEXT_MAX:
            self._routes.clear()
            self._text = 0
        number = len(self._routes) + 1
        numbered = self._routes[route] = NumberedRoute(number, keep(number))
        self._text += text
        return numbered


class RoutesIn:
    """The edges that the other side has numbered."""

    __slots__ = ("_routes", "_text")

    def __init__(self) -> None:
        self._routes: list[Route] = []
        self._text = 0

    def define(self, number: int, route: Route) -> None:
        """Record the meaning of a number, as sent by the other side."""
        if number == 1:
            self._routes.clear()
            self._text = 0
        elif number != len(self._routes) + 1:
            raise RemoteProtocolError(f"route {number} was told where {len(self._routes) + 1} is next")
        self._text += _text_of(route)
        if number > ROUTES_MAX or self._text > ROUTES_TEXT_MAX:
            raise RemoteProtocolError(
                f"{number} routes with {self._text} characters were told; {ROUTES_MAX} with "
                f"{ROUTES_TEXT_MAX} are allowed"
            )
        self._routes.append(route)

    def key(self, number: int, step: int) -> RendezvousKey:
        """Return the key of a tensor that arrived along a route."""
        if number > len(self._routes):
            raise RemoteProtocolError(f"a tensor came along route {number}, which was not told")
        source, incarnation, edge, target = self._routes[number - 1]
        return RendezvousKey(step, source, incarnation, edge, target)

    def clear(self) -> None:
        """Forget all."""
        self._routes.clear()
        self._text = 0


def may_be_numbered(route: Route) -> bool:
    """Return whether a route's names fit the smallest header that a side may accept."""
    return _text_of(route) <= ROUTE_TEXT_MAX


def _text_of(route: Route) -> int:
    return len(route[0]) + len(route[2]) + len(route[3])


__all__ = [
    "ROUTES_MAX",
    "ROUTES_TEXT_MAX",
    "NumberedRoute",
    "Route",
    "RoutesIn",
    "RoutesOut",
    "may_be_numbered",
]
