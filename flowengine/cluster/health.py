"""Losses in a cluster: bounds on silence, and the error of a step that lost a task.

Every connection watches itself (see `transport.limits`): a side that receives nothing for a while asks for a
sign of life, and closes the connection if none arrives. A master has a connection to each task that takes
part in its steps, tasks have one to each task that they exchange tensors with, a client has one to its
master. So each process that waits for a killed, stopped or disconnected process notices the loss, on the link
that it waits at, and within one bound: `Config.silence_seconds`.

A step can also wait in vain for tasks that are alive: see `first_in_vain`.
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

#: A connection asks its peer for a sign of life after this part of the time that the peer may be silent for.
#: It checks twice as often, so that it closes the connection a twelfth after that time at the latest.
_ASKED_AFTER: Final = 1 / 6

#: The time until a running step is checked for waiting in vain, and the longest pause between two checks; the
#: shortest pause, after the step was given something to do.
LOOK_SECONDS: Final = 0.5
LOOK_SECONDS_MAX: Final = 8.0
_SOON_SECONDS: Final = 0.0005

#: The time limit for connecting, if the limit on silence is longer.
CONNECT_SECONDS: Final = 10.0


def connect_seconds(silence_seconds: float) -> float:
    """Return the time limit for connecting to a task, including its proof of identity."""
    return min(CONNECT_SECONDS, silence_seconds)


def limits_for(silence_seconds: float) -> Limits:
    """Return the limits of connections whose other side may be silent for so long."""
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
    """The times at which a running step is checked: ever more rarely while the step makes progress."""

    __slots__ = ("_due", "is_looked_at", "pause")

    def __init__(self) -> None:
        self.pause = LOOK_SECONDS
        #: Set at the first check, because reading the clock in every step would cost too much.
        self._due = 0.0
        self.is_looked_at = False

    def is_due(self, now: float) -> bool:
        """Return whether it is time to check."""
        if not self._due:
            self._due = now + self.pause / 2
        return not self.is_looked_at and now >= self._due

    def something_happened(self) -> None:
        """Record that the step was given something to do, so that the next check comes soon."""
        self.pause = _SOON_SECONDS

    async def wait(self) -> bool:
        """Lengthen the pause, because the step makes progress.

        Returns True after a short pause has been waited for, and False if the check is put off.
        """
        self.pause = min(2 * self.pause, LOOK_SECONDS_MAX)
        if self.pause < LOOK_SECONDS:
            await trio.sleep(self.pause)
            return True
        self._due = trio.current_time() + self.pause
        return False


async def first_in_vain(parts: int, ask: Callable[[int], Awaitable[PartStatus | None]]) -> list[int] | None:
    """Return the place of the Recvs to give up if the step waits for tensors that nobody sends; else None.

    parts    how many tasks take part
    ask      asks one of them for its status; None while it does anything

    On one machine, the executor that falls asleep last sees that all sleep. Here, one task is asked after
    another, and meanwhile a message may wake a task that has answered that it sleeps. So all are asked twice.
    If all slept in both rounds, and the messages sent equal the messages received, and the counts are the
    same both times, then there was a moment between the rounds at which all slept and no message was under
    way. This is the detection of termination by four counters of F. Mattern, "Algorithms for distributed
    termination detection", Distributed Computing 2 (1987). A step at rest does not wake by itself.
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
