"""Calls of tasks for their parts of a step: at once, after dialling, given up; each ends once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.cluster import messages as m
from flowengine.cluster.master.calls import TaskCalls
from flowengine.cluster.master.members import Members
from flowengine.cluster.master.notices import Notices
from flowengine.cluster.master.planning import ClusterPlanner
from flowengine.cluster.master.plans import MasterPlan, TaskPart
from flowengine.core.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from flowengine.kernels.registry import KernelRegistry
from flowengine.transport.calls.service import NOTHING, Reply
from flowengine.transport.errors import ConnectionLostError

HERE = "/job:worker/task:0"
THERE = "/job:worker/task:1"


class FakePeer:
    """A connection whose calls are answered by the test."""

    def __init__(self, incarnation: int = 1, *, has_room: bool = True) -> None:
        self.connection = SimpleNamespace(peer=SimpleNamespace(incarnation=incarnation, task=THERE))
        self.identity = self.connection.peer
        self.room = has_room
        self.sent: list[Any] = []
        self.given_up: list[object] = []
        self.answered: Callable[[Reply | None, OpError | None], None] = lambda reply, error: None
        self.refusal: OpError | None = None
        self.reply: Reply | OpError = NOTHING

    def has_room(self, payload: object) -> bool:
        return self.room

    def begin_call(self, method: str, arguments: Any, payload: object, answered: Any) -> object:
        if self.refusal is not None:
            raise self.refusal
        self.sent.append(arguments)
        self.answered = answered
        return self.sent

    def begin_again(self, template: Any, numbers: Sequence[int], answered: Any) -> object:
        return self.begin_call(template.method, tuple(numbers), None, answered)

    def give_up(self, call: object) -> None:
        self.given_up.append(call)

    async def call(self, method: str, arguments: Any, tensors: object) -> Reply:
        await trio.lowlevel.checkpoint()
        self.sent.append(arguments)
        if isinstance(self.reply, OpError):
            raise self.reply
        return self.reply


class Rig:
    """Calls of a master at HERE to one task, THERE in its first life."""

    def __init__(
        self, nursery: trio.Nursery, peer: FakePeer | None, dialled: FakePeer | OpError | None
    ) -> None:
        self.lost: list[str] = []
        self.ends: list[tuple[m.StepEnd | None, list[Any], BaseException | None]] = []
        self.peer = peer
        self._dialled = dialled
        identity = SimpleNamespace(task=HERE, incarnation=7)
        members = Members(cast(Any, identity), cast(Any, None), cast(Any, self))
        self.notices = Notices(members)
        self.calls = TaskCalls(members, self.notices, nursery, self.lost.append)
        self.part = TaskPart(THERE, 1, ())
        self.plan = cast(MasterPlan, SimpleNamespace(handle=3, parts=[self.part]))

    # Keeps `Links`.

    def open_peer(self, task: str) -> FakePeer | None:
        return self.peer

    async def peer_of(self, task: str, incarnation: int) -> FakePeer:
        await trio.lowlevel.checkpoint()
        if self._dialled is None:
            await trio.sleep_forever()
        if isinstance(self._dialled, OpError):
            raise self._dialled
        assert isinstance(self._dialled, FakePeer)
        return self._dialled

    def begin(self, feeds: Sequence[Any] = (), *, wants_metadata: bool = False) -> Any:
        self.part.feeds = list(range(len(feeds)))

        def ended(part: TaskPart, done: Any, values: list[Any], error: BaseException | None) -> None:
            assert part is self.part
            self.ends.append((done, values, error))

        return self.calls.begin(self.plan, self.part, 9, feeds, ended, wants_metadata=wants_metadata)

    @property
    def error(self) -> BaseException | None:
        ((_, _, error),) = self.ends
        return error


@asynccontextmanager
async def rig(peer: FakePeer | None, dialled: FakePeer | OpError | None = None) -> AsyncIterator[Rig]:
    async with trio.open_nursery() as nursery:
        found = Rig(nursery, peer, dialled)
        found.calls.members.links = cast(
            Any, SimpleNamespace(open_peer=found.open_peer, peer=found.peer_of, addresses={})
        )
        yield found
        nursery.cancel_scope.cancel()


async def test_where_there_is_a_connection_one_message_begins_a_part() -> None:
    peer = FakePeer()
    async with rig(peer) as found:
        found.begin()
        assert peer.sent == [m.RunGraph(3, 9, [], False)]
        peer.answered(NOTHING, None)
        assert found.ends == [(m.WELL, [], None)]
        # Steps that are over are told with the next message, in the form that is known by its first bytes.
        found.notices.step_ended(found.plan, 9)
        found.begin()
        assert peer.sent[1:] == [(3, 9, 9, 9)]
        found.notices.step_ended(found.plan, 9)
        found.begin([np.float32(1)])
        assert peer.sent[2:] == [m.RunGraph(3, 9, [9, 9], False)]
        found.begin()
        assert peer.sent[3:] == [m.RunGraph(3, 9, [], False)]


async def test_values_and_what_cannot_be_read() -> None:
    peer = FakePeer()
    async with rig(peer) as found:
        found.part.fetches = [0]
        found.begin()
        peer.answered(Reply(None, [np.float32(2)]), None)
        found.begin()
        peer.answered(Reply({"error": 5}), None)
        (done, values, error), (unread, _, unreadable) = found.ends
        assert (done, values, error) == (m.StepEnd(), [2], None)
        assert unread is None
        assert isinstance(unreadable, InvalidArgumentError)


@pytest.mark.parametrize("peer", [None, FakePeer(incarnation=2), FakePeer(has_room=False)])
async def test_else_a_part_waits_in_a_task(peer: FakePeer | None) -> None:
    dialled = FakePeer()
    dialled.reply = Reply(None, [np.float32(2)])
    async with rig(peer, dialled) as found:
        found.part.fetches = [0]
        found.begin()
        await trio.testing.wait_all_tasks_blocked()
        assert peer is None or not peer.sent
        assert len(dialled.sent) == 1
        assert found.ends == [(m.StepEnd(), [np.float32(2)], None)]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    "error", [AbortedError("anew"), ConnectionLostError("cut"), UnavailableError("away")]
)
async def test_errors_and_who_is_lost_by_them(is_open: bool, error: OpError) -> None:
    """A task that lives anew is to be asked again; one that was lost is named with its link."""
    peer, dialled = FakePeer(), FakePeer()
    dialled.reply = error
    async with rig(peer if is_open else None, dialled) as found:
        found.begin()
        if is_open:
            peer.answered(None, error)
        await trio.testing.wait_all_tasks_blocked()
        assert found.lost == ([THERE] if isinstance(error, AbortedError) else [])
        assert type(found.error) is type(error)
        if isinstance(error, ConnectionLostError):
            assert f"{THERE} was lost; on the link from {HERE}: cut" in str(found.error)


async def test_who_cannot_be_dialled() -> None:
    async with rig(None, AbortedError("has restarted")) as found:
        found.begin()
        await trio.testing.wait_all_tasks_blocked()
        assert found.lost == [THERE]
        assert "has restarted" in str(found.error)


async def test_a_call_that_is_refused() -> None:
    peer = FakePeer()
    peer.refusal = ConnectionLostError("just closed")
    async with rig(peer) as found:
        found.begin().cancel()
        assert found.error is peer.refusal


@pytest.mark.parametrize("is_open", [False, True])
async def test_what_is_given_up_ends_once(is_open: bool) -> None:
    peer = FakePeer()
    async with rig(peer if is_open else None) as found:
        call = found.begin()
        await trio.testing.wait_all_tasks_blocked()
        assert not found.ends
        call.cancel()
        call.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(found.error, CancelledError)
        assert len(peer.given_up) == is_open
        peer.answered(NOTHING, None)
        call.cancel()
        assert len(found.ends) == 1


async def test_a_plan_is_stale_where_a_task_lives_anew_or_may_have_forgotten_it() -> None:
    async with rig(None) as found:
        members = found.calls.members
        planner = ClusterPlanner(members, found.notices, KernelRegistry(), found.lost.append)
        plan = cast(Any, SimpleNamespace(is_void=False, tasks={HERE: 7, THERE: 1}))
        members.known = {HERE: (7, []), THERE: (1, []), "/job:worker/task:2": (4, [])}
        assert not planner.is_stale(plan)
        members.lost = {"/job:worker/task:2"}
        assert not planner.is_stale(plan)
        members.lost = {THERE}
        assert planner.is_stale(plan)
        members.lost = set()
        members.known[THERE] = (2, [])
        assert planner.is_stale(plan)
        members.known[THERE] = (1, [])
        plan.is_void = True
        assert planner.is_stale(plan)
