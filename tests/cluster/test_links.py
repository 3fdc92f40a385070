"""Connections between tasks: one a pair, of the life that a task has now, dialled by the one of the two."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from flowengine.cluster.links import Links
from flowengine.core.errors import OpError, UnavailableError
from flowengine.transport.wire.identity import Identity
from flowengine.transport.wire.states import State

FIRST, SECOND = (f"/job:worker/task:{number}" for number in range(2))


class FakePeer:
    """A peer in one life; `failure` is what it was ended with."""

    def __init__(self, task: str, incarnation: int) -> None:
        self.identity = Identity("worker", "cluster", task, incarnation)
        self.connection = SimpleNamespace(address=f"tcp://{task}", state=State.OPEN)
        self.failure: OpError | None = None

    def fail(self, error: OpError) -> None:
        self.failure = error
        self.connection.state = State.CLOSED


class FakeExchange:
    """Keeps the newest peer of each task."""

    def __init__(self) -> None:
        self.peers: dict[str, Any] = {}
        self.peer = self.peers.get
        self.pushed = None

    def peer_opened(self, peer: Any) -> None:
        self.peers[peer.identity.task] = peer


def links_of(task: str, nursery: Any = None) -> Any:
    identity = Identity("worker", "cluster", task, 3)
    exchange: Any = FakeExchange()
    return Links(nursery, identity=identity, key=None, exchange=exchange, addresses={})


def test_a_connection_to_a_former_life_ends_when_the_task_dials_anew() -> None:
    """Nobody else may tell of its end: what ended may have been the machine, or the network."""
    links = links_of(FIRST)
    former, same, present = FakePeer(SECOND, 5), FakePeer(SECOND, 5), FakePeer(SECOND, 6)
    links.peer_opened(former)
    links.peer_opened(same)
    assert former.failure is None, "of two connections of one life each carries what was sent on it"
    links.peer_opened(FakePeer("/job:worker/task:2", 9))
    assert same.failure is None
    links.peer_opened(present)
    assert same.failure is not None
    assert "task:1 has restarted and dialled anew" in same.failure.message
    assert links.open_peer(SECOND) is present


async def test_of_two_that_meet_the_first_dials_and_the_second_waits_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    dialled: list[tuple[str, float]] = []

    async def dial(task: str, incarnation: int) -> Any:
        await trio.lowlevel.checkpoint()
        dialled.append((task, trio.current_time()))
        raise UnavailableError("nobody there")

    first, second = links_of(FIRST), links_of(SECOND)
    first._dial = second._dial = dial
    with pytest.raises(UnavailableError):
        await first.meet(SECOND)
    assert dialled == [(SECOND, 0.0)]
    # The other one does so only if nothing comes.
    with pytest.raises(UnavailableError):
        await second.meet(FIRST)
    assert dialled[1:] == [(FIRST, 2.0)]
    found: list[Any] = []
    peer = FakePeer(FIRST, 5)

    async def meet() -> None:
        found.append(await second.meet(FIRST, 5))

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(meet)
        await trio.sleep(1.9)
        second.peer_opened(FakePeer("/job:worker/task:2", 9))
        second.peer_opened(peer)
    assert found == [peer, peer]
    assert len(dialled) == 2
    assert autojump_clock.autojump_threshold == 0
