"""How a cluster notices what is gone: bounds on silence, and what a step that lost a task says of it.

Every connection watches itself (see `transport.limits`): who hears nothing for a while asks for a sign of
life, and gives the connection up when none comes. A master has a connection to each task that takes part in
its steps, tasks have one to each task that they exchange tensors with, a client has one to its master. So a
process that was killed, stopped or cut off is noticed by each of those who wait for it, on the link that they
wait at, and within one bound: `Config.silence_seconds`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from flowengine.core.errors import OpError
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.limits import Limits

#: A peer is asked for a sign of life after this part of the time that it may be silent for. It is looked at
#: twice as often, so that a silent one is given up a twelfth after its time at the latest.
_ASKED_AFTER: Final = 1 / 6

#: What connecting may take, where silence may take longer.
CONNECT_SECONDS: Final = 10.0


def connect_seconds(silence_seconds: float) -> float:
    """What connecting to a task may take, its proof of who it is included."""
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


def lost_task(task: str, devices: Iterable[str], master: str, error: OpError) -> ConnectionLostError:
    """What a step says that lost a task: which, with what devices, and on which link."""
    names = list(devices)
    lost = ConnectionLostError(
        f"{task} was lost while it ran its part of the step on {', '.join(names)}; "
        f"on the link from {master}: {error.message}"
    )
    lost.device = names[0] if names else None
    return lost


__all__ = ["CONNECT_SECONDS", "connect_seconds", "limits_for", "lost_task"]
