"""The master service of one task: sessions of clients, their plans, and steps over all tasks.

For each request the master prunes, places, partitions and registers once; a step is then one message to each
task that takes part. Tensors never pass through here, but for what is fed and fetched.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.ids import Endings, StepNumbers
from flowengine.cluster.links import Links
from flowengine.cluster.members import Members
from flowengine.cluster.plans import MasterPlan, TaskPart, without_gathering
from flowengine.cluster.steps import MasterStep, ready_parts
from flowengine.cluster.together import together
from flowengine.cluster.watch import Watch
from flowengine.cluster.worker import Master as Registrar
from flowengine.cluster.worker import PartDone, Worker
from flowengine.core.arrays import Value
from flowengine.core.config import Config, Settings
from flowengine.core.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    NotFoundError,
    OpError,
)
from flowengine.core.recent import Recent
from flowengine.ir.graph import Graph
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.cut.partition import partition
from flowengine.passes.pipeline import prepare
from flowengine.passes.place.placer import Placer
from flowengine.runtime.requests import Requests
from flowengine.runtime.taskless import Running
from flowengine.transport.peer import Peer
from flowengine.transport.wire.identity import Identity

logger: Final = logging.getLogger("flowengine.cluster")

#: Ended steps are told with the next message to a task, and by themselves if none goes there for so long.
_TELL_SECONDS: Final = 1.0


#: What is called with the fetched values of a step, or with its error.
RunDone: TypeAlias = Callable[[list[Any], BaseException | None], None]

#: So many steps that wait for nothing may run one after another before others get their turn.
_UNYIELDED_MAX: Final = 8


class _Prepared:
    """A request and its plan; the plan is made anew when a task that it needs has restarted."""

    __slots__ = ("feeds", "fetches", "lock", "plan", "targets", "version")

    def __init__(self, feeds: list[str], fetches: list[str], targets: list[str]) -> None:
        self.feeds = feeds
        self.fetches = fetches
        self.targets = targets
        self.plan: MasterPlan | None = None
        self.version = -1
        self.lock = trio.Lock()


class ClusterSession:
    """One client's graph at this master."""

    def __init__(self, number: int, owner: Identity, graph: Graph, settings: Settings) -> None:
        self.number = number
        self.owner = owner
        self.settings = settings
        self.prepared: Recent[int, _Prepared] = Recent(m.REQUESTS_MAX)
        self.placer: Placer | None = None
        self.running: set[Running] = set()
        self._idle = trio.lowlevel.ParkingLot()
        #: {task: incarnation} of those that steps have used, where another life of one is an error.
        self.lives: dict[str, int] = {}
        self.graph = graph
        self.requests = Requests(graph)

    def step_ended(self, step: Running) -> None:
        """One of the session's steps is over."""
        self.running.discard(step)
        if not self.running and self._idle:
            self._idle.unpark_all()

    async def wait_idle(self) -> None:
        """Wait until no step of the session runs."""
        while self.running:
            await self._idle.park()

    def replace_graph(self, graph: Graph) -> None:
        """Run a grown graph from now on; what was prepared keeps what it has."""
        self.graph = graph
        self.requests = Requests(graph)


class Master:
    """Sessions and steps at one task.

    identity    of this task
    worker      the task's own worker, which is called without a message
    addresses   {task: address} of the whole cluster
    """

    def __init__(
        self,
        *,
        identity: Identity,
        worker: Worker,
        links: Links,
        kernels: KernelRegistry,
    ) -> None:
        self.identity = identity
        self._worker = worker
        self._links = links
        self._kernels = kernels
        self._registrar = Registrar(identity.task, identity.incarnation)
        self._sessions: dict[int, ClusterSession] = {}
        #: Closed, with steps that have not ended yet.
        self._closing: set[ClusterSession] = set()
        self._numbers = itertools.count(1)
        self._steps = StepNumbers()
        self._endings: dict[str, Endings] = {}
        self._forgotten: dict[str, list[int]] = {}
        self.members = Members(identity, worker, links)
        self.watch = Watch(self.members)
        self._to_tell = trio.Event()
        self._unyielded = 0

    @property
    def messages(self) -> dict[str, int]:
        """Messages sent to tasks, by method: what a step costs."""
        return self.members.messages

    # -- sessions -----------------------------------------------------------------------------------

    def create_session(self, owner: Identity, graph: Graph, config: Config) -> ClusterSession:
        """Open a session on a graph for a client."""
        number = next(self._numbers)
        session = self._sessions[number] = ClusterSession(number, owner, graph, config.resolved())
        logger.info("session %d of %s on %d nodes", number, owner.task, len(graph))
        return session

    def session(self, number: int, owner: Identity) -> ClusterSession:
        """A client's session; NotFoundError if it has none of this number."""
        session = self._sessions.get(number)
        if session is None or session.owner != owner:
            raise NotFoundError(f"{owner.task} has no session {number} at {self.identity.task}")
        return session

    def close_session(self, session: ClusterSession) -> None:
        """End a session's steps with CancelledError and have the workers forget its graphs."""
        self._sessions.pop(session.number, None)
        if session.running:
            self._closing.add(session)
        for scope in tuple(session.running):
            scope.cancel()
        for prepared in session.prepared.values():
            self._drop(prepared)
        session.prepared.clear()

    def client_lost(self, client: Identity) -> None:
        """Close the sessions of a client that is gone."""
        for session in [each for each in self._sessions.values() if each.owner == client]:
            logger.info("session %d: %s is gone", session.number, client.task)
            self.close_session(session)

    def task_lost(self, task: str) -> None:
        """Ask a task for its devices again before anything more is placed there.

        It has forgotten what this master registered with it, or will when it learns of the loss.
        """
        self.members.lost.add(task)
        for session in self._sessions.values():
            for prepared in session.prepared.values():
                if prepared.plan is not None and task in prepared.plan.tasks:
                    prepared.plan.is_void = True

    def _drop(self, prepared: _Prepared) -> None:
        if prepared.plan is not None:
            self._forget(prepared.plan)

    def _forget(self, plan: MasterPlan) -> None:
        for part in plan.parts:
            self._forgotten.setdefault(part.task, []).append(plan.handle)
        self._to_tell.set()

    # -- requests -----------------------------------------------------------------------------------

    async def prepare(
        self,
        session: ClusterSession,
        feeds: list[str],
        fetches: list[str],
        targets: list[str],
        dropped: Sequence[int] = (),
    ) -> int:
        """Make and register the plan of a request; its number.

        dropped    requests that are not asked for any more
        Raises what a session raises for a request that does not fit the graph, and UnavailableError naming
        a task that is not there.
        """
        for old in dropped:
            gone = session.prepared.pop(old)
            if gone is not None:
                self._drop(gone)
        prepared = _Prepared(feeds, fetches, targets)
        await self._plan(session, prepared)
        number = next(self._numbers)
        # A client that keeps within the bound has said what it dropped; one that does not prepares again.
        evicted = session.prepared.put(number, prepared)
        if evicted is not None:
            self._drop(evicted[1])
        return number

    def knows(self, session: ClusterSession, number: int) -> bool:
        """Whether a request is prepared and has not been dropped since."""
        return number in session.prepared

    async def _plan(self, session: ClusterSession, prepared: _Prepared) -> MasterPlan:
        async with prepared.lock:
            plan = prepared.plan
            if plan is not None and not self._is_stale(plan):
                return plan
            if plan is not None:
                self._forget(plan)
                prepared.plan = None
                session.placer = None
            await self.members.know_all()
            while True:
                plan = self._cut(session, prepared)
                lost = self.members.lost.intersection(plan.tasks)
                if not lost:
                    break
                # Whether they are there again, and in which life; what else is gone does not matter here.
                await together(partial(self.members.ask, task) for task in sorted(lost))
                session.placer = None
            self._check_lives(session, plan)
            try:
                await together(partial(self._register, plan, part) for part in plan.parts)
            except BaseException:
                self._forget(plan)
                raise
            prepared.plan = plan
            return plan

    def _cut(self, session: ClusterSession, prepared: _Prepared) -> MasterPlan:
        """The plan of a request over the tasks as they are known."""
        devices = self.members.known
        request = session.requests.read(prepared.fetches, prepared.feeds, prepared.targets)
        context = session.requests.context(request, session.settings, self._kernels)
        graph = prepare(session.graph, context)
        placement = self._placer(session).place(graph, session.graph, supplied=context.feeds)
        graph, context = without_gathering(graph, context)
        incarnations = {task: incarnation for task, (incarnation, _) in devices.items()}
        cut = partition(
            graph,
            context,
            placement.device_of,
            {str(o.name): incarnations[task] for task, (_, offers) in devices.items() for o in offers},
        )
        return MasterPlan(next(self._numbers), cut, context, incarnations)

    def _check_lives(self, session: ClusterSession, plan: MasterPlan) -> None:
        """AbortedError where a task lives anew that a session must not lose."""
        if not session.settings.abort_on_restart:
            return
        for task, incarnation in plan.tasks.items():
            if session.lives.setdefault(task, incarnation) != incarnation:
                raise AbortedError(
                    f"{task} has restarted since session {session.number} used it: what it held is gone"
                )

    def _is_stale(self, plan: MasterPlan) -> bool:
        if plan.is_void:
            return True
        lost, known = self.members.lost, self.members.known
        for task, incarnation in plan.tasks.items():  # noqa: SIM110
            if task in lost or known[task][0] != incarnation:
                return True
        return False

    def _placer(self, session: ClusterSession) -> Placer:
        if session.placer is None:
            settings = session.settings
            # What is here comes first: it costs no message.
            tasks = sorted(self.members.known, key=lambda task: task != self.identity.task)
            session.placer = Placer(
                [offer for task in tasks for offer in self.members.known[task][1]],
                self._kernels,
                rules=settings.place,
                soft=bool(settings.allow_soft_placement),
                log=settings.log_device_placement,
            )
        return session.placer

    async def _register(self, plan: MasterPlan, part: TaskPart) -> None:
        addresses = {**self._links.addresses}
        message, graphs = plan.registration(part, addresses)
        self.members.count(m.REGISTER_GRAPH)
        if part.task == self.identity.task:
            await self._worker.register(self._registrar, message, graphs, self._links)
            return
        try:
            peer = await self._links.peer(part.task, part.incarnation)
            await self.members.call(peer, m.REGISTER_GRAPH, message.to_wire(), graphs)
        except AbortedError:
            # It lives anew, and this side has not heard that its last life ended: it is to be asked again.
            self.task_lost(part.task)
            raise

    # -- steps --------------------------------------------------------------------------------------

    async def run(
        self,
        session: ClusterSession,
        number: int,
        feeds: Sequence[Value],
        *,
        timeout_seconds: float | None = None,
        wants_metadata: bool = False,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Run a prepared request: the fetched values, and what was asked for about the step.

        Raises the first error that is not told of by another task, AbortedError if a task restarted
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
        if plan is None or self._is_stale(plan):
            plan = await self._plan(session, prepared)
        with trio.CancelScope() as scope:
            session.running.add(scope)
            try:
                step = MasterStep(self, plan, feeds, wants_metadata)
                if timeout_seconds is None:
                    await step.run()
                else:
                    with trio.move_on_after(timeout_seconds) as deadline:
                        await step.run()
                    if deadline.cancelled_caught:
                        raise DeadlineExceededError(f"the step did not end within {timeout_seconds:g} s")
                return step.results(), step.metadata
            finally:
                self._step_ended(session, scope)
        raise CancelledError(f"session {session.number} was closed")

    def begin_run(
        self, session: ClusterSession, number: int, feeds: Sequence[Value], done: RunDone
    ) -> Running | None:
        """As `run`, without a task: `done` is called once, perhaps at once, with what `run` gives or raises.

        None, and nothing is begun, where the step has to wait for something first, or is wrong.
        """
        prepared = session.prepared.get(number)
        plan = None if prepared is None else prepared.plan
        if plan is None or prepared is None or len(feeds) != len(prepared.feeds) or self._is_stale(plan):
            return None
        ready = ready_parts(self, plan, feeds)
        if ready is None:
            return None
        step = MasterStep(self, plan, feeds, wants_metadata=False)

        def ended(error: BaseException | None) -> None:
            self._step_ended(session, step)
            if error is not None and session.number not in self._sessions:
                error = CancelledError(f"session {session.number} was closed")
            done(step.results(), error)

        session.running.add(step)
        step.begin(ready, ended)
        return step

    def _step_ended(self, session: ClusterSession, step: Running) -> None:
        session.step_ended(step)
        if session.number not in self._sessions and not session.running:
            self._closing.discard(session)

    async def let_others_run(self) -> None:
        """A checkpoint that cannot be cancelled, once in a few calls."""
        self._unyielded += 1
        if self._unyielded >= _UNYIELDED_MAX:
            self._unyielded = 0
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def wait_idle(self) -> None:
        """Wait until no step of this master runs anywhere."""
        while busy := next(filter(_is_busy, (*self._sessions.values(), *self._closing)), None):
            await busy.wait_idle()

    async def run_part(
        self, plan: MasterPlan, part: TaskPart, step: int, feeds: Sequence[Any], wants_metadata: bool
    ) -> tuple[m.Done, list[Any]]:
        """One task's part of a step: one message, or a call where the task is this one."""
        self.members.count(m.RUN_GRAPH)
        message = m.RunGraph(plan.handle, step, self.ended_for(part), wants_metadata)
        values = [feeds[index] for index in part.feeds]
        if part.task == self.identity.task:
            return await self._worker.run(self._registrar, message, values)
        try:
            peer = await self._links.peer(part.task, part.incarnation)
            reply = await self.members.call(peer, m.RUN_GRAPH, message.to_wire(), values, part.devices)
        except AbortedError:
            # It lives anew, or has forgotten the graph because the connection was lost.
            self.task_lost(part.task)
            raise
        return m.Done.from_wire(reply.result), list(reply.tensors)

    def ended_for(self, part: TaskPart) -> list[int]:
        """The steps that a part's task is to be told of as ended, with what is sent to it next."""
        endings = self._endings.get(part.task)
        return endings.take() if endings is not None and endings.numbers else []

    def begin_own_part(self, message: m.RunGraph, values: Sequence[Any], done: PartDone) -> Running:
        """Begin the part of a step that this task itself runs; see `Worker.begin`."""
        return self._worker.begin(self._registrar, message, values, done)

    def open_peer(self, task: str, incarnation: int) -> Peer | None:
        """The connection to a task in this life, if there is one."""
        peer = self._links.open_peer(task)
        if peer is None:
            return None
        identity = peer.connection.peer
        return peer if identity is not None and identity.incarnation == incarnation else None

    def begin_step(self) -> int:
        """Another number for every step."""
        return self._steps.new()

    def end_step(self, plan: MasterPlan, number: int) -> None:
        """A step is over on every task; they are told with their next message."""
        here, known = self.identity.task, self._endings
        for part in plan.parts:
            task = part.task
            if task == here:
                self._worker.exchange.end_step(number)
                continue
            endings = known.get(task)
            if endings is None:
                endings = known[task] = Endings()
            endings.numbers.append(number)
        if not self._to_tell.is_set() and (len(plan.parts) > 1 or plan.parts[0].task != self.identity.task):
            self._to_tell.set()

    async def tell(self) -> None:
        """Tell tasks what is over, where no other message does. Runs until cancelled."""
        while True:
            await self._to_tell.wait()
            await trio.sleep(_TELL_SECONDS)
            self._to_tell = trio.Event()
            for task in dict.fromkeys((*self._endings, *self._forgotten)):
                await self._tell(task)

    async def _tell(self, task: str) -> None:
        endings, handles = self._endings.get(task), self._forgotten.pop(task, [])
        if task == self.identity.task:
            self._worker.deregister(self._registrar, handles)
            return
        peer = self._links.open_peer(task)
        if peer is None:
            # Whoever comes back there has forgotten them anyway.
            self._endings.pop(task, None)
            return
        try:
            if endings:
                await peer.call(m.END_STEPS, m.EndSteps(endings.take()).to_wire())
            if handles:
                await peer.call(m.DEREGISTER_GRAPHS, m.DeregisterGraphs(handles).to_wire())
        except OpError as error:
            logger.debug("%s was not told what is over: %s", task, error.message)

    def statistics(self) -> dict[str, Any]:
        """What the master has done and holds."""
        return {
            "sessions": len(self._sessions),
            "requests": sum(len(session.prepared) for session in self._sessions.values()),
            **{f"sent_{method}": count for method, count in sorted(self.messages.items())},
        }


def _is_busy(session: ClusterSession) -> bool:
    return bool(session.running)


__all__ = ["ClusterSession", "Master"]
