"""The master service of one task: sessions of clients, their requests, and steps over all tasks.

For each request, the master prunes, places, partitions and registers once; a step is then one message to each
task that takes part. Only feeds and fetches pass through the master.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.completion import Completion
from flowengine.cluster.ids import StepNumbers
from flowengine.cluster.links import Links
from flowengine.cluster.master.calls import TaskCalls
from flowengine.cluster.master.followed_steps import FollowedStep, FollowedSteps
from flowengine.cluster.master.members import Members
from flowengine.cluster.master.notices import Notices
from flowengine.cluster.master.planning import ClusterPlanner
from flowengine.cluster.master.plans import MasterPlan
from flowengine.cluster.master.sessions import ClusterSession, PreparedRequest
from flowengine.cluster.master.steps import MasterStep, StepDone
from flowengine.cluster.master.watch import Watch
from flowengine.cluster.worker.worker import Worker
from flowengine.core.abandonment import SESSION_CLOSED
from flowengine.core.arrays import Value
from flowengine.core.config import Config
from flowengine.core.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    NotFoundError,
)
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.registry import KernelRegistry
from flowengine.transport.wire.identity import Identity

logger: Final = logging.getLogger("flowengine.cluster")


class Master:
    """Sessions and steps at one task.

    identity    of this task
    members     the tasks of the cluster, as far as they are known
    notices     news that has not been sent to them yet
    watch       checks whether steps wait in vain
    """

    def __init__(
        self,
        *,
        identity: Identity,
        worker: Worker,
        links: Links,
        kernels: KernelRegistry,
        nursery: trio.Nursery,
    ) -> None:
        """`worker` is the task's own. Calls that have to wait before they can be sent do so in `nursery`."""
        self.identity = identity
        self.members = Members(identity, worker, links)
        self.notices = Notices(self.members)
        self.watch = Watch(self.members)
        self._follower = FollowedSteps(self.members)
        self._calls = TaskCalls(self.members, self.notices, nursery, self.task_lost)
        self._planner = ClusterPlanner(self.members, self.notices, kernels, self.task_lost)
        self._sessions: dict[int, ClusterSession] = {}
        #: Closed sessions with steps that have not ended yet.
        self._closing: set[ClusterSession] = set()
        self._numbers = itertools.count(1)
        self._steps = StepNumbers()

    @property
    def messages(self) -> dict[str, int]:
        """Return the number of messages sent to tasks, by method: the cost of a step."""
        return self.members.messages

    # -- sessions -----------------------------------------------------------------------------------

    def create_session(self, owner: Identity, graph: NodeGraph, config: Config) -> ClusterSession:
        """Open a session on a graph for a client."""
        number = next(self._numbers)
        session = self._sessions[number] = ClusterSession(number, owner, graph, config.resolved())
        logger.info("session %d of %s on %d nodes", number, owner.task, len(graph))
        return session

    def session(self, number: int, owner: Identity) -> ClusterSession:
        """Return a client's session. Raises NotFoundError if the client has none of this number."""
        session = self._sessions.get(number)
        if session is None or session.owner != owner:
            raise NotFoundError(f"{owner.task} has no session {number} at {self.identity.task}")
        return session

    def close_session(self, session: ClusterSession) -> None:
        """End a session's steps with CancelledError, and make the workers forget its graphs."""
        self._sessions.pop(session.number, None)
        if session.running:
            self._closing.add(session)
        for step in tuple(session.running):
            step.cancel()
        for prepared in session.prepared.values():
            self._drop(prepared)
        session.prepared.clear()
        self.notices.session_ended(session.number, session.tasks)

    def client_lost(self, client: Identity) -> None:
        """Close the sessions of a lost client."""
        for session in [each for each in self._sessions.values() if each.owner == client]:
            logger.info("session %d: %s is gone", session.number, client.task)
            self.close_session(session)

    def task_lost(self, task: str) -> None:
        """Ask a task for its devices again before any more nodes are placed there.

        It has forgotten the graphs that this master registered, or will when it learns of the loss.
        """
        self.members.lost.add(task)
        for session in self._sessions.values():
            for prepared in session.prepared.values():
                if prepared.plan is not None and task in prepared.plan.tasks:
                    prepared.plan.is_void = True

    def _drop(self, prepared: PreparedRequest) -> None:
        if prepared.plan is not None:
            self.notices.plan_dropped(prepared.plan)

    # -- requests -----------------------------------------------------------------------------------

    async def prepare(
        self,
        session: ClusterSession,
        feeds: list[str],
        fetches: list[str],
        targets: list[str],
        dropped: Sequence[int] = (),
    ) -> int:
        """Make and register the plan of a request; return its number.

        dropped    requests that the client does not need any more
        Raises the errors of a session for a request that does not fit the graph, and UnavailableError that
        names a missing task.
        """
        for old in dropped:
            gone = session.prepared.pop(old)
            if gone is not None:
                self._drop(gone)
        prepared = PreparedRequest(feeds, fetches, targets)
        await self._planner.plan(session, prepared)
        number = next(self._numbers)
        # A client that keeps within the bound has sent the numbers it dropped; another client prepares again.
        evicted = session.prepared.put(number, prepared)
        if evicted is not None:
            self._drop(evicted[1])
        return number

    def knows(self, session: ClusterSession, number: int) -> bool:
        """Return whether a request is prepared and has not been dropped since."""
        return number in session.prepared

    # -- steps --------------------------------------------------------------------------------------

    async def run(
        self,
        session: ClusterSession,
        number: int,
        feeds: Sequence[Value],
        *,
        timeout_seconds: float | None = None,
        wants_metadata: bool = False,
        announce: Callable[[MasterPlan, int], Awaitable[None]] | None = None,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Run a prepared request; return the fetched values, and the metadata that the caller asked for.

        announce   awaited with the plan and the number of the step before it begins

        Raises the first error that does not merely report another task's, AbortedError if a task restarted
        meanwhile, DeadlineExceededError after the timeout.
        """
        prepared = session.prepared.get(number)
        if prepared is None:
            raise NotFoundError(f"session {session.number} has no request {number}: prepare it again")
        if len(feeds) != len(prepared.feeds):
            raise FailedPreconditionError(
                f"the request takes {len(prepared.feeds)} feeds, it was given {len(feeds)}"
            )
        plan = prepared.plan
        if plan is None or self._planner.is_stale(plan):
            plan = await self._planner.plan(session, prepared)
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.move_on_after(math.inf if timeout_seconds is None else timeout_seconds):
            step_number = self._steps.new()
            if announce is not None:
                await announce(plan, step_number)
                if session.number not in self._sessions:
                    raise CancelledError(SESSION_CLOSED)
            completion = Completion()
            running = self._begin(
                session, plan, step_number, feeds, completion.settle, wants_metadata=wants_metadata
            )
            step = await completion.wait(running)
            return step.values, step.metadata
        raise DeadlineExceededError(f"the step did not end within {timeout_seconds:g} s")

    def begin_run(
        self, session: ClusterSession, number: int, feeds: Sequence[Value], done: StepDone
    ) -> MasterStep | None:
        """Start a step as `run` does, without a trio task: `done` is called once with the step and its error.

        Returns None, and starts nothing, if the request has no plan yet or is invalid.
        """
        prepared = session.prepared.get(number)
        plan = None if prepared is None else prepared.plan
        if plan is None or prepared is None or len(feeds) != len(prepared.feeds):
            return None
        if self._planner.is_stale(plan):
            return None
        return self._begin(session, plan, self._steps.new(), feeds, done, wants_metadata=False)

    def _begin(
        self,
        session: ClusterSession,
        plan: MasterPlan,
        number: int,
        feeds: Sequence[Value],
        done: StepDone,
        *,
        wants_metadata: bool,
    ) -> MasterStep:
        """Begin one step of a session on every task. `done` is called once, perhaps at once."""

        def ended(step: MasterStep, error: BaseException | None) -> None:
            if plan.is_joint:
                self.watch.steps.discard(step)
            self.notices.step_ended(plan, number)
            session.step_ended(step)
            if session.number not in self._sessions:
                if not session.running:
                    self._closing.discard(session)
                if error is not None:
                    error = CancelledError(SESSION_CLOSED)
            done(step, error)

        step = MasterStep(self._calls, plan, number, feeds, ended, wants_metadata=wants_metadata)
        if plan.is_joint:
            self.watch.steps.add(step)
        session.running.add(step)
        step.begin()
        return step

    async def run_followed(
        self, session: ClusterSession, message: m.RunFollowed, feeds: Sequence[Value]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Run a prepared request as `run` does, traced or guarded; its parts wait for `take_trace`.

        Raises UnimplementedError, too, if a task does not know such steps.
        """
        step = session.followed[message.ticket] = FollowedStep()
        try:
            return await self.run(
                session,
                message.prepared,
                feeds,
                timeout_seconds=message.timeout_seconds,
                wants_metadata=True,
                announce=partial(self._follower.announce, step, message.options),
            )
        finally:
            step.has_ended.set()

    async def take_trace(self, session: ClusterSession, message: m.TakeTrace) -> tuple[Any, list[Value]]:
        """Return the parts of a followed step, and forget them: see `FollowedSteps.take`.

        Raises NotFoundError for a step that never came here.
        """
        step = session.followed.pop(message.ticket, None)
        if step is None:
            raise NotFoundError(f"session {session.number} has no traced step {message.ticket}")
        return await self._follower.take(step, message.seconds)

    async def wait_idle(self) -> None:
        """Wait until no step of this master runs anywhere."""
        while busy := next(filter(_is_busy, (*self._sessions.values(), *self._closing)), None):
            await busy.wait_idle()

    def statistics(self) -> dict[str, Any]:
        """Return counts of the master's sessions, their requests and the messages sent."""
        return {
            "sessions": len(self._sessions),
            "requests": sum(len(session.prepared) for session in self._sessions.values()),
            **{f"sent_{method}": count for method, count in sorted(self.messages.items())},
        }


def _is_busy(session: ClusterSession) -> bool:
    return bool(session.running)


__all__ = ["Master"]
