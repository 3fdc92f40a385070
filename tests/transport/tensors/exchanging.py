"""Two tasks that exchange tensors over a link."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.connection import Connection
from flowengine.transport.limits import Limits
from flowengine.transport.peer import Peer
from flowengine.transport.streams.inproc import stream_pair
from flowengine.transport.tensors.exchange import Exchange
from flowengine.transport.tensors.step_rendezvous import StepRendezvous
from flowengine.transport.wire.states import Side
from tests.tools.links import KEY, identity

A, B = "/job:w/task:0", "/job:w/task:1"
CPU = "/device:CPU:0"


def key(edge: str, step: int = 1, *, source: str = A, target: str = B, incarnation: int = 0) -> RendezvousKey:
    return RendezvousKey(step, source + CPU, incarnation, edge, target + CPU)


class Pair:
    """Two tasks that exchange tensors."""

    def __init__(self) -> None:
        self.a = Exchange(A)
        self.b = Exchange(B)
        self.peer_a: Peer
        self.peer_b: Peer

    async def join(self, nursery: trio.Nursery, limits: Limits | None, lives: tuple[int, int]) -> None:
        near, far = stream_pair()
        now = trio.current_time()
        options: dict[str, Any] = {"now": now, "key": KEY, "limits": limits}
        self.peer_b = Peer(
            near,
            Connection(Side.DIALLER, identity(A, incarnation=lives[0]), address="inproc://b", **options),
            tensors=self.a,
        )
        self.peer_a = Peer(
            far,
            Connection(Side.LISTENER, identity(B, incarnation=lives[1]), address="inproc://a", **options),
            tensors=self.b,
        )
        nursery.start_soon(self.peer_a.run)
        await nursery.start(self.peer_b.run)
        await trio.testing.wait_all_tasks_blocked()

    def begin(self, step: int = 1) -> tuple[StepRendezvous, StepRendezvous]:
        return self.a.begin_step(step), self.b.begin_step(step)


@asynccontextmanager
async def tasks(
    limits: Limits | None = None, *, lives: tuple[int, int] = (10, 11)
) -> AsyncIterator[tuple[Pair, trio.Nursery]]:
    pair = Pair()
    async with trio.open_nursery() as nursery:
        await pair.join(nursery, limits, lives)
        yield pair, nursery
        nursery.cancel_scope.cancel()


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


def steps_of(pair: Pair) -> tuple[Any, Any]:
    """A new step of a pair each time, and keys of the latest."""
    step = 0

    async def make_pair() -> tuple[StepRendezvous, StepRendezvous]:
        nonlocal step
        step += 1
        return pair.begin(step)

    return make_pair, lambda edge: key(edge, step)
