"""The calls by which a master makes the tasks of its cluster run their parts of a step.

If there is a connection to a task and room on it, the master sends the message that begins a part at once,
and the connection's reader handles the answer. Otherwise the call gets a trio task, which may dial first and
wait for room. The master calls its own task without any message. All three end alike: a function is called
once with the end of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.health import lost_task
from flowengine.cluster.master.members import Members
from flowengine.cluster.master.notices import Notices
from flowengine.cluster.master.plans import MasterPlan, TaskPart
from flowengine.core.arrays import Value
from flowengine.core.errors import AbortedError, CancelledError, OpError
from flowengine.runtime.taskless import Cancellable
from flowengine.transport.calls.service import NOTHING, Reply
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.events import OutgoingCall
from flowengine.transport.peer import Peer
from flowengine.transport.wire.payload import NO_TENSORS, Payload

NO_VALUES: Final[tuple[Value, ...]] = ()
#: A function that is called with a part, its `StepEnd` and its values, or with the error.
PartEnded: TypeAlias = Callable[[TaskPart, m.StepEnd | None, list[Any], BaseException | None], None]


class TaskCalls:
    """Calls of one master.

    nursery     the nursery for calls that have to wait before they can be sent
    task_lost   called with a task that has restarted, or has forgotten its registered graphs
    """

    def __init__(
        self, members: Members, notices: Notices, nursery: trio.Nursery, task_lost: Callable[[str], None]
    ) -> None:
        self.members = members
        self.nursery = nursery
        self.task_lost = task_lost
        self._notices = notices
        self._here = members.identity.task

    def begin(
        self,
        plan: MasterPlan,
        part: TaskPart,
        step: int,
        feeds: Sequence[Value],
        ended: PartEnded,
        *,
        wants_metadata: bool,
    ) -> Cancellable:
        """Make a task run its part of a step. `ended` is called once, perhaps before this returns."""
        over = self._notices.take_steps(part.task)
        values = [feeds[index] for index in part.feeds] if part.feeds else NO_VALUES
        if part.task == self._here:
            message = m.RunGraph(plan.handle, step, over, wants_metadata)
            members = self.members
            return members.worker.begin(members.registrar, message, values, partial(ended, part))
        call = PartCall(self, part, ended)
        peer = self._open_peer(part)
        payload = Payload(values) if values else NO_TENSORS
        if peer is None or not peer.has_room(payload):
            call.begin_in_task(m.RunGraph(plan.handle, step, over, wants_metadata), values)
        elif payload is NO_TENSORS and len(over) == 2 and not wants_metadata:
            call.begin_again(peer, (plan.handle, step, *over))
        else:
            call.begin(peer, m.RunGraph(plan.handle, step, over, wants_metadata), payload)
        return call

    def _open_peer(self, part: TaskPart) -> Peer | None:
        """Return the connection to this incarnation of a part's task, if there is one."""
        peer = self.members.links.open_peer(part.task)
        if peer is None:
            return None
        identity = peer.connection.peer
        return peer if identity is not None and identity.incarnation == part.incarnation else None


class PartCall:
    """A task's part of one step, run by that task."""

    __slots__ = ("_calls", "_ended", "_part", "_way")

    def __init__(self, calls: TaskCalls, part: TaskPart, ended: PartEnded) -> None:
        self._calls = calls
        self._part = part
        #: None once it has been called.
        self._ended: PartEnded | None = ended
        #: The call on a connection, or the scope of the trio task; None if nothing was sent.
        self._way: tuple[Peer, OutgoingCall] | trio.CancelScope | None = None

    def begin(self, peer: Peer, message: m.RunGraph, payload: Payload) -> None:
        """Send the message now: there is room for it."""
        try:
            self._way = peer, peer.begin_call(m.RUN_GRAPH, message.to_wire(), payload, self._answered)
        except OpError as error:
            self._end(None, [], error)

    def begin_again(self, peer: Peer, numbers: Sequence[int]) -> None:
        """Send a message of nothing but numbers now, in the form that its first bytes announce."""
        try:
            self._way = peer, peer.begin_again(m.RUN_GRAPH_AGAIN, numbers, self._answered)
        except OpError as error:
            self._end(None, [], error)

    def begin_in_task(self, message: m.RunGraph, values: Sequence[Value]) -> None:
        """Send the message when there is a connection, and room for it."""
        scope = self._way = trio.CancelScope()
        self._calls.nursery.start_soon(self._run, scope, message, values)

    async def _run(self, scope: trio.CancelScope, message: m.RunGraph, values: Sequence[Value]) -> None:
        reply: Reply | None = None
        error: Exception | None = _given_up()
        members, part = self._calls.members, self._part
        try:
            with scope:
                peer = await members.links.peer(part.task, part.incarnation)
                reply = await members.call(peer, m.RUN_GRAPH, message.to_wire(), values, part.devices)
                error = None
        except Exception as raised:
            error = raised
        finally:
            self._settle(reply, error)

    def cancel(self) -> None:
        """Abandon the part, because nobody waits for it any more; without effect on a part that is over."""
        way = self._way
        if self._ended is None:
            return
        if isinstance(way, trio.CancelScope):
            way.cancel()
            return
        if way is not None:
            peer, call = way
            peer.give_up(call)
        self._end(None, [], _given_up())

    # How it ends.

    def _answered(self, reply: Reply | None, error: OpError | None) -> None:
        """Handle the task's answer, or the error of the call."""
        part = self._part
        if reply is NOTHING and not part.fetches:
            ended, self._ended = self._ended, None
            if ended is not None:
                ended(part, m.WELL, [], None)
            return
        if isinstance(error, ConnectionLostError):
            error = lost_task(part.task, part.devices, self._calls.members.identity.task, error)
        self._settle(reply, error)

    def _settle(self, reply: Reply | None, error: Exception | None) -> None:
        done: m.StepEnd | None = None
        if isinstance(error, AbortedError):
            # The task has restarted, or has forgotten the graph because the connection was lost.
            self._calls.task_lost(self._part.task)
        elif reply is not None:
            try:
                done = m.StepEnd.from_wire(reply.result)
            except OpError as unreadable:
                error = unreadable
        self._end(done, list(reply.tensors) if reply is not None else [], error)

    def _end(self, done: m.StepEnd | None, tensors: list[Any], error: Exception | None) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(self._part, done, tensors, error)


def _given_up() -> CancelledError:
    return CancelledError("nobody waits for this part of the step any more")


__all__ = ["PartEnded", "TaskCalls"]
