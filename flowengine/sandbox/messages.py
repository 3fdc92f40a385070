"""Messages between a host and the process in a box, and how the host reads what that process says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from flowengine.cluster.messages import Message
from flowengine.core.errors import InvalidArgumentError

OPEN: Final = "box_open"
PREPARE: Final = "box_prepare"
RUN: Final = "box_run"
RESET: Final = "box_reset"
FOLLOW: Final = "box_follow"
TAKE_PART: Final = "box_take_part"
READ_CLOCK: Final = "box_read_clock"
SETTLE: Final = "box_settle"
FREED: Final = "box_freed"

#: Requests that are kept.
REQUESTS_MAX: Final = 1024


@dataclass(frozen=True)
class BoxOpen(Message):
    """A graph.

    path   of a SavedModel; "" where the graph comes along
    tags   which of several; none for the one for serving
    """

    path: str
    tags: list[str]


@dataclass(frozen=True)
class BoxPrepare(Message):
    """A combination of feeds, fetches and targets.

    as_values   whether a bare name of a fetch is the node's first output
    """

    feeds: list[str]
    fetches: list[str]
    targets: list[str]
    as_values: bool


@dataclass(frozen=True)
class BoxMeaning(Message):
    """The meaning of the names in a request.

    feeds, fetches   {"name", "dtype", "dims"} of each tensor that is fed, and of each that comes back
    positions        for each name that was asked for, its place among the fetches; -1 for a node that is run
    """

    number: int
    feeds: list[dict[str, Any]]
    fetches: list[dict[str, Any]]
    positions: list[int]


class BoxRun(NamedTuple):
    """A step of a prepared request. Answer: nothing, `DROPPED`, or a `BoxValues`; values beside.

    places   where feeds lie that do not come beside, as in `passage`; empty where all do
    done     places of values that this side has copied

    One is sent for each step, so it travels as an array of its fields, short where nothing lies anywhere.
    """

    prepared: int
    timeout_seconds: float
    places: Sequence[Any] = ()
    done: Sequence[int] = ()

    def to_wire(self) -> list[Any]:
        """The record as what msgpack carries."""
        return list(self) if self.places or self.done else list(self[:2])

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read a record; InvalidArgumentError if it is none."""
        if type(data) is list and len(data) in (2, 4):
            are_places = len(data) == 2 or type(data[2]) is type(data[3]) is list
            if type(data[0]) is int and type(data[1]) in (int, float) and are_places:
                return cls(*data)
        raise InvalidArgumentError(f"BoxRun is an array of a request, seconds, and places, not {data!r:.100}")


class BoxValues(NamedTuple):
    """The places of a step's values, as `BoxRun.places`, and the feeds whose places are free again."""

    places: Sequence[Any]
    done: Sequence[int]

    def to_wire(self) -> list[Any]:
        """The record as what msgpack carries."""
        return list(self)

    @classmethod
    def from_wire(cls, data: Any) -> Self:
        """Read a record; InvalidArgumentError if it is none."""
        if type(data) is list and len(data) == 2 and all(type(each) is list for each in data):
            return cls(*data)
        raise InvalidArgumentError(f"BoxValues is an array of two arrays of places, not {data!r:.100}")


#: The answer to a step whose request is not kept any more: it is to be prepared again.
DROPPED: Final = False


@dataclass(frozen=True)
class BoxFollow(Message):
    """An order to trace or guard the one step of a prepared request. Answer: nothing.

    options   trace and guard, as `cluster.following.to_table` wrote it
    """

    prepared: int
    options: dict[str, Any]


@dataclass(frozen=True)
class BoxTakePart(Message):
    """A request for the trace of a followed step, whose request is forgotten then. Answer: a `TracePart`.

    seconds   how long the step is waited for if it has not ended
    """

    prepared: int
    seconds: float


@dataclass(frozen=True)
class BoxReset(Message):
    """Containers to clear; none: all."""

    containers: list[str]


__all__ = [
    "DROPPED",
    "FOLLOW",
    "FREED",
    "OPEN",
    "PREPARE",
    "READ_CLOCK",
    "REQUESTS_MAX",
    "RESET",
    "RUN",
    "SETTLE",
    "TAKE_PART",
    "BoxFollow",
    "BoxMeaning",
    "BoxOpen",
    "BoxPrepare",
    "BoxReset",
    "BoxRun",
    "BoxTakePart",
    "BoxValues",
]
