"""One step at its master: every task is told to run its part, and how each ended is gathered.

Where there is a connection to every task, nothing here needs a task of its own: the parts are begun one after
another, and their answers are counted where they are read. Else each part gets a task, which may dial first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.health import Patience, lost_task
from flowengine.cluster.plans import MasterPlan, TaskPart
from flowengine.core.arrays import Value
from flowengine.core.errors import AbortedError, CancelledError, InternalError, OpError
from flowengine.runtime.taskless import Running
from flowengine.transport.calls.service import NOTHING, Reply
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.events import OutgoingCall
from flowengine.transport.peer import Peer
from flowengine.transport.wire.payload import NO_TENSORS, Payload

if TYPE_CHECKING:
    from flowengine.cluster.master import Master


#: (part, its task's connection, what is sent) of all parts; the own task's has neither of the two.
ReadyParts: TypeAlias = list[tuple[TaskPart, Peer | None, Payload | None]]
#: A part that is under way: its call on a connection, or what runs here; None while it is being begun.
UnderWay: TypeAlias = tuple[Peer, OutgoingCall] | Running | None


def ready_parts(master: Master, plan: MasterPlan, feeds: Sequence[Value]) -> ReadyParts | None:
    """The parts of a step that can be begun at once; None if one of them would have to wait.

    The own task's part comes last: the others run meanwhile.
    """
    found: ReadyParts = []
    own: TaskPart | None = None
    here, open_peer = master.identity.task, master.open_peer
    for part in plan.parts:
        if part.task == here:
            own = part
            continue
        peer = open_peer(part.task, part.incarnation)
        payload = Payload([feeds[index] for index in part.feeds]) if part.feeds else NO_TENSORS
        if peer is None or not peer.has_room(payload):
            return None
        found.append((part, peer, payload))
    if own is not None:
        found.append((own, None, None))
    return found


class MasterStep:
    """One step, over the tasks that take part.

    patience    when it is looked at whether anything will come of it
    metadata    {task: what was asked for}
    """

    def __init__(
        self, master: Master, plan: MasterPlan, feeds: Sequence[Value], wants_metadata: bool
    ) -> None:
        self._master = master
        self.plan = plan
        self._feeds = feeds
        self._wants_metadata = wants_metadata
        self.number = master.begin_step()
        self.patience = Patience()
        self._values: list[Any] = [None] * plan.fetches
        self._error: BaseException | None = None
        self._derived: OpError | None = None
        #: Parts that run without a task.
        self._open: dict[TaskPart, UnderWay] = {}
        self._is_beginning = False
        self._task: trio.lowlevel.Task | None = None
        #: What is called instead where no task waits for the step.
        self._done: Callable[[BaseException | None], None] | None = None
        self.metadata: dict[str, Any] = {}

    async def run(self) -> None:
        """Run every task's part. Raises the first error that is nobody else's."""
        if self.plan.is_joint:
            self._master.watch.steps.add(self)
        try:
            ready = ready_parts(self._master, self.plan, self._feeds)
            if ready is not None:
                await self._run_directly(ready)
            else:
                await self._run_in_tasks()
        finally:
            self._master.watch.steps.discard(self)
            self._master.end_step(self.plan, self.number)
        error = self._error if self._error is not None else self._derived
        if error is not None:
            raise error

    def begin(self, ready: ReadyParts, done: Callable[[BaseException | None], None]) -> None:
        """As `run`, without a task: `done` is called once, perhaps at once, with the error or None."""
        if self.plan.is_joint:
            self._master.watch.steps.add(self)
        self._done = done
        self._begin_parts(ready)
        if not self._open:
            self._finish()

    def cancel(self) -> None:
        """End a step that was begun, with CancelledError; without effect on one that is over."""
        if self._done is None:
            return
        if self._error is None:
            self._error = CancelledError("the caller gave the call up")
        self._give_up_open()
        if not self._open:
            self._finish()

    def _finish(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            self._master.watch.steps.discard(self)
            self._master.end_step(self.plan, self.number)
            done(self._error if self._error is not None else self._derived)

    def results(self) -> list[Any]:
        """The fetched values, once it is over."""
        return self._values

    # -- without tasks ------------------------------------------------------------------------------

    async def _run_directly(self, ready: ReadyParts) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        self._begin_parts(ready)
        if not self._open:
            # Nothing had to be waited for; a host that runs one step after another still gets its turn.
            await self._master.let_others_run()
            return
        try:
            await self._wait_until_over()
        except BaseException:
            self._give_up_open()
            with trio.CancelScope(shield=True):
                while self._open:
                    await self._wait_until_over()
            raise

    def _begin_parts(self, ready: ReadyParts) -> None:
        master = self._master
        self._is_beginning = True
        plan, number, still = self.plan, self.number, self._open
        for part, _, _ in ready:
            still[part] = None
        for part, peer, payload in ready:
            if part not in still:
                continue  # given up before it was begun, for another has failed already
            under_way: UnderWay
            ended = master.ended_for(part)
            if peer is None or payload is None:
                message = m.RunGraph(plan.handle, number, ended, self._wants_metadata)
                values = [self._feeds[index] for index in part.feeds]
                under_way = master.begin_own_part(message, values, partial(self._ended, part))
            else:
                answered = partial(self._answered, part)
                try:
                    if len(ended) == 2 and payload is NO_TENSORS and not self._wants_metadata:
                        first, last = ended
                        call = peer.begin_again(
                            m.RUN_GRAPH_AGAIN, (plan.handle, number, first, last), answered
                        )
                    else:
                        message = m.RunGraph(plan.handle, number, ended, self._wants_metadata)
                        call = peer.begin_call(m.RUN_GRAPH, message.to_wire(), payload, answered)
                except OpError as error:
                    self._ended(part, None, [], error)
                    continue
                under_way = peer, call
            if part in still:
                still[part] = under_way
        master.members.count(m.RUN_GRAPH, len(ready))
        self._is_beginning = False

    async def _wait_until_over(self) -> None:
        def abort(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)

    def _give_up_open(self) -> None:
        """End what still runs. Calls are over by that; what runs here says when it is."""
        for part, under_way in tuple(self._open.items()):
            if part not in self._open:
                continue  # giving up the one before has found the link of this one broken
            if under_way is None:
                del self._open[part]
            elif isinstance(under_way, tuple):
                del self._open[part]
                peer, call = under_way
                peer.give_up(call)
            else:
                under_way.cancel()

    def _answered(self, part: TaskPart, reply: Reply | None, error: OpError | None) -> None:
        """A task has answered, or cannot any more."""
        if reply is NOTHING and not part.fetches:
            if part in self._open:
                del self._open[part]
                self._part_ended()
            return
        done: m.Done | None = None
        if isinstance(error, ConnectionLostError):
            error = lost_task(part.task, part.devices, self._master.identity.task, error)
        elif isinstance(error, AbortedError):
            # It lives anew, or has forgotten the graph because the connection was lost.
            self._master.task_lost(part.task)
        elif reply is not None:
            try:
                done = m.Done.from_wire(reply.result)
            except OpError as unreadable:
                error = unreadable
        self._ended(part, done, list(reply.tensors) if reply is not None else [], error)

    def _ended(
        self, part: TaskPart, done: m.Done | None, tensors: list[Any], error: BaseException | None
    ) -> None:
        """A part is over."""
        if part not in self._open:
            return
        del self._open[part]
        if self._gather(part, done, tensors, error):
            self._give_up_open()
        self._part_ended()

    def _part_ended(self) -> None:
        if self._open or self._is_beginning:
            return
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)
        else:
            self._finish()

    # -- with a task for each part ------------------------------------------------------------------

    async def _run_in_tasks(self) -> None:
        parts = self.plan.parts
        if len(parts) == 1:
            await self._run_part(parts[0], None)
            return
        async with trio.open_nursery() as nursery:
            for part in parts:
                nursery.start_soon(self._run_part, part, nursery.cancel_scope)

    async def _run_part(self, part: TaskPart, others: trio.CancelScope | None) -> None:
        found: tuple[m.Done | None, list[Any]] = None, []
        error: OpError | None = None
        try:
            found = await self._master.run_part(
                self.plan, part, self.number, self._feeds, self._wants_metadata
            )
        except OpError as raised:
            error = raised
        if self._gather(part, *found, error) and others is not None:
            others.cancel()

    # -- how parts end ------------------------------------------------------------------------------

    def _gather(
        self, part: TaskPart, done: m.Done | None, tensors: list[Any], error: BaseException | None
    ) -> bool:
        """Keep what a part gives, or its error; whether the other parts are to be ended for that."""
        if done is not None and not done.error:
            return self._take(part, done, tensors)
        if done is not None:
            error = m.error_from_table(done.error)
            if done.is_derived:
                self._derived = self._derived or error
                return False
        elif isinstance(error, OpError) and error.device is None and error.node_name is None:
            error.add_note(f"while {part.task} ran its part of the step")
        if self._error is None:
            self._error = error
        # The others have been told by the task that failed, unless it cannot tell any more.
        return True

    def _take(self, part: TaskPart, done: m.Done, tensors: list[Any]) -> bool:
        if len(tensors) != len(part.fetches):
            self._error = InternalError(
                f"{part.task} gave {len(tensors)} values, {len(part.fetches)} were asked for"
            )
            return False
        if tensors:
            for index, tensor in zip(part.fetches, tensors, strict=True):
                self._values[index] = tensor
        if done.metadata:
            self.metadata[part.task] = done.metadata
        return False


__all__ = ["MasterStep", "ReadyParts", "ready_parts"]
