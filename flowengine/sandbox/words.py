"""Messages between a host and the process in a box, and how the host reads what that process says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from flowengine.cluster.messages import Message

OPEN: Final = "box_open"
PREPARE: Final = "box_prepare"
RUN: Final = "box_run"
RESET: Final = "box_reset"

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
    """What the names of a request mean.

    feeds, fetches   {"name", "dtype", "dims"} of each tensor that is fed, and of each that comes back
    positions        for each name that was asked for, its place among the fetches; -1 for a node that is run
    """

    number: int
    feeds: list[dict[str, Any]]
    fetches: list[dict[str, Any]]
    positions: list[int]


@dataclass(frozen=True)
class BoxRun(Message):
    """A step of a prepared request."""

    prepared: int
    timeout_seconds: float | None


@dataclass(frozen=True)
class BoxReset(Message):
    """Containers to clear; none: all."""

    containers: list[str]


__all__ = [
    "OPEN",
    "PREPARE",
    "REQUESTS_MAX",
    "RESET",
    "RUN",
    "BoxMeaning",
    "BoxOpen",
    "BoxPrepare",
    "BoxReset",
    "BoxRun",
]
