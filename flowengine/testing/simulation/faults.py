"""Faults of hosts and links at given moments, made by seed or by hand, one after another.

The moment of a fault is told in pieces that the network has brought since the fault before it. Simulated time
would not do: training moves in milliseconds and recovery waits for seconds, so moments drawn from time would
fall into the waiting nearly always.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import trio

from flowengine.testing.simulation.hosts import Death
from flowengine.testing.simulation.network import Direction
from flowengine.testing.simulation.world import World


class FaultKind(Enum):
    """A kind of fault of a host, or of the link between two.

    KILL        the host's process is killed; its machine closes the connections
    LOSE        the machine is gone without a word
    RESET       the connections between two hosts break
    PART        nothing passes between two hosts; senders do not notice
    HALF_OPEN   nothing passes from the first to the second
    SLOW        what passes between two hosts takes long, each piece another time
    STALL       the host stands still: nothing passes to or from it
    """

    KILL = "kill"
    LOSE = "lose"
    RESET = "reset"
    PART = "part"
    HALF_OPEN = "half-open"
    SLOW = "slow"
    STALL = "stall"


#: Faults of two hosts; the others are of one.
BETWEEN_TWO: Final = frozenset({FaultKind.RESET, FaultKind.PART, FaultKind.HALF_OPEN, FaultKind.SLOW})
#: What ends the life of a host.
DEADLY: Final = frozenset({FaultKind.KILL, FaultKind.LOSE})
#: What one way takes at most where a link is slow.
_SLOW_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    after     pieces that the network brings between the fault before and this one
    kind      what it is
    host      whom it hits
    other     the second host of a fault between two
    seconds   until it is over: the host is started again, the link passes again
    """

    after: int
    kind: FaultKind
    host: str
    other: str = ""
    seconds: float = 1.0

    def __str__(self) -> str:
        where = f"{self.host} and {self.other}" if self.other else self.host
        return f"{self.kind.value} {where} for {self.seconds:g} s, {self.after} pieces later"


def random_faults(
    chance: random.Random, hosts: Sequence[str], count: int, *, pieces: int = 100, seconds_max: float = 40.0
) -> list[Fault]:
    """So many faults of these hosts, `pieces` apart on average."""
    faults = []
    for _ in range(count):
        kind = chance.choice(list(FaultKind))
        host = chance.choice(hosts)
        other = ""
        if kind in BETWEEN_TWO:
            other = chance.choice([name for name in hosts if name != host])
        # As many short ones as long ones.
        seconds = 0.001 * (seconds_max / 0.001) ** chance.random()
        faults.append(Fault(int(chance.expovariate(1 / pieces)), kind, host, other, round(seconds, 6)))
    return faults


async def make_faults(world: World, faults: Sequence[Fault]) -> None:
    """Let these faults happen, one after another; they end by themselves. Returns when all are over."""
    async with trio.open_nursery() as nursery:
        for fault in faults:
            await world.network.wait_pieces(fault.after)
            nursery.start_soon(_make, world, fault)


async def _make(world: World, fault: Fault) -> None:
    world.log.add(fault.host, f"fault: {fault.kind.value} {fault.other}".rstrip())
    network, host = world.network, fault.host
    if fault.kind in DEADLY:
        # Of several at one moment the first does it, and starts it again.
        if await world.crash(host, Death.PROCESS if fault.kind is FaultKind.KILL else Death.MACHINE):
            await trio.sleep(fault.seconds)
            await world.restart(host)
    elif fault.kind is FaultKind.RESET:
        world.reset(host, fault.other)
    elif fault.kind is FaultKind.SLOW:
        await _slow(world, [(host, fault.other), (fault.other, host)], fault.seconds)
    else:
        if fault.kind is FaultKind.HALF_OPEN:
            directions = [(host, fault.other)]
        else:
            others = [name for name in world.hosts if name != host]
            if fault.kind is FaultKind.PART:
                others = [fault.other]
            directions = [pair for other in others for pair in ((host, other), (other, host))]
        network.block(*directions)
        await trio.sleep(fault.seconds)
        network.unblock(*directions)
        world.log.add(host, f"over: {fault.kind.value} {fault.other}".rstrip())


async def _slow(world: World, directions: Sequence[Direction], seconds: float) -> None:
    network = world.network
    for direction in directions:
        network.models[direction] = replace(network.model, jitter_seconds=_SLOW_SECONDS)
    await trio.sleep(seconds)
    for direction in directions:
        network.models.pop(direction, None)


__all__ = ["BETWEEN_TWO", "DEADLY", "Fault", "FaultKind", "make_faults", "random_faults"]
