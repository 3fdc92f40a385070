"""Losses and how a cluster notices them: bounds on silence, and the error of a step that lost a task.

Every connection watches itself (see `transport.limits`): who hears nothing for a while asks for a sign of
life, and gives the connection up when none comes. A master has a connection to each task that takes part in
its steps, tasks have one to each task that they exchange tensors with, a client has one to its master. So a
process that was killed, stopped or cut off is noticed by each of those who wait for it, on the link that they
wait at, and within one bound: `Config.silence_seconds`.

What is there may wait in vain all the same: see `first_in_vain`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

import trio

from flowengine.cluster.messages import PartStatus
from flowengine.core.errors import OpError
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.limits import Limits

#: A peer is asked for a sign of life after this part of the time that it may be silent for. It is looked at
#: twice as often, so that a silent one is given up a twelfth after its time at the latest.
_ASKED_AFTER: Final = 1 / 6

#: How long a step runs before it is looked at whether it waits for what nobody will send, and the longest
#: pause between two looks; the shortest, after it was given something to do.
LOOK_SECONDS: Final = 0.5
LOOK_SECONDS_MAX: Final = 8.0
_SOON_SECONDS: Final = 0.0005

#: What connecting may take, where silence may take longer.
CONNECT_SECONDS: Final = 10.0


def connect_seconds(silence_seconds: float) -> float:
    """Return the time limit for connecting to a task, its proof of identity included."""
    return min(CONNECT_SECONDS, silence_seconds)


def limits_for(silence_seconds: float) -> Limits:
    """Limits of connections whose other side may be silent for so long."""
    limits = Limits()
    return replace(
        limits,
        silence_seconds=silence_seconds,
        heartbeat_seconds=silence_seconds * _ASKED_AFTER,
        handshake_seconds=connect_seconds(silence_seconds),
        frame_seconds=max(limits.frame_seconds, silence_seconds),
    )


def lost_task(task: str, devices: Sequence[str], master: str, error: OpError) -> ConnectionLostError:
    """Build the error for a lost task: its name, its devices if it ran a step, and the link."""
    part = f" while it ran its part of the step on {', '.join(devices)}" if devices else ""
    lost = ConnectionLostError(f"{task} was lost{part}; on the link from {master}: {error.message}")
    lost.device = devices[0] if devices else None
    return lost


class Patience:
    """When a running step is looked at: after a while, and more and more rarely while it does something."""

    __slots__ = ("_due", "is_looked_at", "pause")

    def __init__(self) -> None:
        self.pause = LOOK_SECONDS
        #: Known from the first look on: asking the clock would cost every step more than it is worth.
        self._due = 0.0
        self.is_looked_at = False

    def is_due(self, now: float) -> bool:
        """Whether to look now."""
        if not self._due:
            self._due = now + self.pause / 2
        return not self.is_looked_at and now >= self._due

    def something_happened(self) -> None:
        """It has been given something to do: look again at once."""
        self.pause = _SOON_SECONDS

    async def wait(self) -> bool:
        """It does something: whether it has been waited for, rather than put off to a later look."""
        self.pause = min(2 * self.pause, LOOK_SECONDS_MAX)
        if self.pause < LOOK_SECONDS:
            await trio.sleep(self.pause)
            return True
        self._due = trio.current_time() + self.pause
        return False


async def first_in_vain(parts: int, ask: Callable[[int], Awaitable[PartStatus | None]]) -> list[int] | None:
    """The place whose Recvs are to be given up, where a step waits for what nobody will send; else None.

    parts    how many tasks take part
    ask      how one of them stands; None while it does anything

    On one machine whoever falls asleep last sees that all sleep. Here one is asked after another, and
    meanwhile a message may wake one that has said that it sleeps. So all are asked twice: if in both rounds
    all slept, and what they had sent in all was what they had received in all, and the same both times, then
    there was a moment between the rounds at which all slept and nothing was under way. This is the detection
    of termination by four counters of F. Mattern, "Algorithms for distributed termination detection",
    Distributed Computing 2 (1987). To a step that has come to rest nothing happens by itself any more.
    """
    rounds: list[tuple[int, int]] = []
    places: list[tuple[int, list[int]]] = []
    for _ in range(2):
        sent = received = 0
        places.clear()
        for index in range(parts):
            standing = await ask(index)
            if standing is None:
                return None
            sent += standing.sent
            received += standing.received
            if standing.first:
                places.append((standing.first[0], standing.first[1:]))
        rounds.append((sent, received))
    if not places or rounds[0] != rounds[1] or rounds[0][0] != rounds[0][1]:
        return None
    depth, numbers = min(places)
    return [depth, *numbers]


__all__ = [
    "CONNECT_SECONDS",
    "LOOK_SECONDS",
    "Patience",
    "connect_seconds",
    "first_in_vain",
    "limits_for",
    "lost_task",
]
