"""The methods that a task answers: each handles one message of `messages` by its master or its worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.credentials import WORKER
from flowengine.cluster.devices import described
from flowengine.cluster.graphs import read_graph
from flowengine.cluster.links import Links
from flowengine.cluster.master.master import Master
from flowengine.cluster.master.sessions import ClusterSession
from flowengine.cluster.master.steps import MasterStep
from flowengine.cluster.spec import ClusterSpec
from flowengine.cluster.worker.parts import is_cancelled_here
from flowengine.cluster.worker.registered_partitions import Registrar
from flowengine.cluster.worker.worker import Worker
from flowengine.core.config import Config
from flowengine.core.errors import (
    CancelledError,
    InvalidArgumentError,
    PermissionDeniedError,
    UnavailableError,
)
from flowengine.transport.calls.service import NOTHING, Answer, IncomingCall, Reply, RunningCall, Service

#: The settings that a client may choose for its session; the others are those of the server.
SESSION_FIELDS: Final = frozenset(
    {
        "fold_constants",
        "merge_common_subexpressions",
        "allow_soft_placement",
        "log_device_placement",
        "place",
        "abort_on_restart",
    }
)


class TaskService:
    """The methods of one task.

    is_ending   whether the task ends: then a cancellation comes from the task, not from a waiting caller
    """

    def __init__(self, cluster: ClusterSpec, worker: Worker, master: Master, links: Links) -> None:
        self._cluster = cluster
        self._name = worker.task
        self._worker = worker
        self._master = master
        self._links = links
        self._started_at = trio.current_time()
        self._is_draining = False
        self.is_ending = False

    def service(self) -> Service:
        """Return the methods by name, for connections and for sessions of this process."""
        return Service(
            self._by_name(), {m.RUN: self._begin_run, m.RUN_GRAPH: self._run_graph}, (m.RUN_GRAPH_AGAIN,)
        )

    async def drain(self) -> None:
        """Accept no more sessions and steps, and return when the running ones have ended."""
        self._is_draining = True
        await self._master.wait_idle()
        await self._worker.wait_idle()

    def _by_name(self) -> dict[str, Callable[[IncomingCall], Any]]:
        return {
            m.CREATE_SESSION: self._create_session,
            m.EXTEND_SESSION: self._extend_session,
            m.PREPARE: self._prepare,
            m.RUN: self._run,
            m.READ_CLOCK: self._read_clock,
            m.RUN_FOLLOWED: self._run_followed,
            m.TAKE_TRACE: self._take_trace,
            m.FOLLOW_STEP: self._follow_step,
            m.TAKE_PART: _for_tasks(self._take_part),
            m.CLOSE_SESSION: self._close_session,
            m.RESET: self._reset,
            m.RANDOM_PLACES: self._random_places,
            m.SET_RANDOM_PLACES: self._set_random_places,
            m.LIST_DEVICES: self._list_devices,
            m.STATUS: self._status,
            m.DRAIN: self._drain,
            m.REGISTER_GRAPH: _for_tasks(self._register_graph),
            m.PROBE_STEP: self._probe_step,
            m.GIVE_UP: self._give_up,
            m.END_STEPS: self._end_steps,
            m.DEREGISTER_GRAPHS: self._deregister_graphs,
        }

    def _create_session(self, request: IncomingCall) -> int:
        self._check_taking("sessions")
        message = m.CreateSession.from_wire(request.arguments)
        graph = read_graph(_only(request))
        return self._master.create_session(request.peer, graph, _config(message.config)).number

    def _extend_session(self, request: IncomingCall) -> None:
        message = m.ExtendSession.from_wire(request.arguments)
        self._session(request, message.session).replace_graph(read_graph(_only(request)))

    async def _prepare(self, request: IncomingCall) -> int:
        message = m.Prepare.from_wire(request.arguments)
        session = self._session(request, message.session)
        with self._ends():
            return await self._master.prepare(
                session, message.feeds, message.fetches, message.targets, message.dropped
            )

    async def _run(self, request: IncomingCall) -> Reply:
        self._check_taking("steps")
        message = m.Run.from_wire(request.arguments)
        session = self._session(request, message.session)
        if not self._master.knows(session, message.prepared):
            return Reply(None)
        with self._ends():
            values, metadata = await self._master.run(
                session,
                message.prepared,
                request.tensors,
                timeout_seconds=message.timeout_seconds,
                wants_metadata=message.wants_metadata,
            )
        return Reply(metadata, values)

    async def _run_followed(self, request: IncomingCall) -> Reply:
        self._check_taking("steps")
        message = m.RunFollowed.from_wire(request.arguments)
        session = self._session(request, message.session)
        if not self._master.knows(session, message.prepared):
            return Reply(None)
        with self._ends():
            values, metadata = await self._master.run_followed(session, message, request.tensors)
        return Reply(metadata if message.wants_metadata else {}, values)

    async def _take_trace(self, request: IncomingCall) -> Reply:
        message = m.TakeTrace.from_wire(request.arguments)
        return Reply(*await self._master.take_trace(self._session(request, message.session), message))

    def _read_clock(self, request: IncomingCall) -> float:
        return self._worker.followed.clock()

    def _follow_step(self, request: IncomingCall) -> None:
        _check_task(request)
        message = m.FollowStep.from_wire(request.arguments)
        self._worker.followed.announce(_registrar(request), message)

    async def _take_part(self, request: IncomingCall) -> Reply:
        message = m.TakePart.from_wire(request.arguments)
        part, tensors = await self._worker.followed.take(_registrar(request), message)
        return Reply(part.to_wire(), tensors)

    def _begin_run(self, request: IncomingCall, answer: Answer) -> RunningCall | None:
        """Handle the message as `_run` does, without a trio task; None if it needs one."""
        self._check_taking("steps")
        message = m.Run.from_wire(request.arguments)
        session = self._session(request, message.session)
        if message.timeout_seconds is not None or message.wants_metadata:
            return None

        def done(step: MasterStep, error: BaseException | None) -> None:
            answer(Reply(step.metadata, step.values), self._seen_by_others(error))

        return self._master.begin_run(session, message.prepared, request.tensors, done)

    @contextmanager
    def _ends(self) -> Iterator[None]:
        try:
            yield
        except CancelledError as error:
            seen = self._seen_by_others(error)
            if seen is error or seen is None:
                raise
            raise seen from None

    def _seen_by_others(self, error: BaseException | None) -> BaseException | None:
        """Return a cancellation by this task's end as UnavailableError: no waiting caller cancelled it."""
        if isinstance(error, CancelledError) and (self.is_ending or is_cancelled_here()):
            return UnavailableError(f"{self._name} has ended: {error.message}")
        return error

    async def _close_session(self, request: IncomingCall) -> None:
        message = m.SessionNumber.from_wire(request.arguments)
        session = self._session(request, message.session)
        self._master.close_session(session)
        await session.wait_idle()

    async def _reset(self, request: IncomingCall) -> None:
        message = m.Reset.from_wire(request.arguments)
        if message.everywhere:
            await self._master.members.reset(message.containers)
        else:
            await self._worker.reset(message.containers)

    async def _random_places(self, request: IncomingCall) -> dict[str, str]:
        sequences = m.RandomPlaces.from_wire(request.arguments).sequences
        if request.peer.role == WORKER:
            return self._worker.random_places(sequences)
        return await self._master.members.random_places(sequences)

    async def _set_random_places(self, request: IncomingCall) -> None:
        message = m.SetRandomPlaces.from_wire(request.arguments)
        if request.peer.role == WORKER:
            self._worker.set_random_places(message.sequences, message.places)
        else:
            await self._master.members.set_random_places(message.sequences, message.places)

    async def _list_devices(self, request: IncomingCall) -> list[dict[str, Any]]:
        if request.peer.role == WORKER:
            return self._worker.describe_devices()
        devices = await self._master.members.devices()
        return [described(offer) for task in self._links.addresses for offer in devices[task][1]]

    def _status(self, request: IncomingCall) -> dict[str, Any]:
        peers = [self._worker.exchange.peer(task) for task in self._cluster]
        return {
            "task": self._name,
            "incarnation": self._worker.incarnation,
            "address": self._links.addresses[self._name],
            "uptime_seconds": trio.current_time() - self._started_at,
            "is_draining": self._is_draining,
            "connected": [peer.identity.task for peer in peers if peer is not None and peer.is_open],
            "devices": self._worker.describe_devices(),
            "worker": self._worker.statistics(),
            "master": self._master.statistics(),
        }

    async def _drain(self, request: IncomingCall) -> None:
        await self.drain()

    async def _register_graph(self, request: IncomingCall) -> None:
        message = m.RegisterGraph.from_wire(request.arguments)
        await self._worker.register(_registrar(request), message, request.tensors, self._links)

    def _run_graph(self, request: IncomingCall, answer: Answer) -> RunningCall:
        peer = request.peer
        if peer.role != WORKER:
            _check_task(request)
        message = m.RunGraph.from_wire(request.arguments)

        def done(found: m.StepEnd | None, values: list[Any], error: BaseException | None) -> None:
            if found is m.WELL and not values:
                answer(NOTHING, None)
            else:
                answer(None if found is None else Reply(found.to_wire(), values), error)

        return self._worker.begin(Registrar(peer.task, peer.incarnation), message, request.tensors, done)

    def _probe_step(self, request: IncomingCall) -> dict[str, Any] | None:
        _check_task(request)
        standing = self._worker.probe(m.ProbeStep.from_wire(request.arguments).step)
        return None if standing is None else standing.to_wire()

    def _give_up(self, request: IncomingCall) -> None:
        _check_task(request)
        message = m.GiveUp.from_wire(request.arguments)
        self._worker.give_up(message.step, message.first)

    def _end_steps(self, request: IncomingCall) -> None:
        _check_task(request)
        self._worker.end_steps(m.EndSteps.from_wire(request.arguments).ended)

    def _deregister_graphs(self, request: IncomingCall) -> None:
        _check_task(request)
        message = m.DeregisterGraphs.from_wire(request.arguments)
        self._worker.deregister(_registrar(request), message.handles, message.sessions)

    def _session(self, request: IncomingCall, number: int) -> ClusterSession:
        return self._master.session(number, request.peer)

    def _check_taking(self, what: str) -> None:
        if self._is_draining:
            raise UnavailableError(f"{self._name} is being drained: it takes no more {what}")


def _for_tasks(handler: Callable[[IncomingCall], Awaitable[Any]]) -> Callable[[IncomingCall], Awaitable[Any]]:
    async def checked(request: IncomingCall) -> Any:
        _check_task(request)
        return await handler(request)

    return checked


def _check_task(request: IncomingCall) -> None:
    if request.peer.role != WORKER:
        raise PermissionDeniedError(f"'{request.method}' is for the tasks of the cluster, not for clients")


def _registrar(request: IncomingCall) -> Registrar:
    return Registrar(request.peer.task, request.peer.incarnation)


def _only(request: IncomingCall) -> Any:
    if len(request.tensors) != 1:
        raise InvalidArgumentError(f"'{request.method}' comes with one graph, not {len(request.tensors)}")
    return request.tensors[0]


def _config(fields: dict[str, Any]) -> Config:
    unknown = sorted(fields.keys() - SESSION_FIELDS)
    if unknown:
        raise InvalidArgumentError(
            f"a session elsewhere cannot be given {', '.join(unknown)}: these are settings of the task's own "
            f"process; it takes {', '.join(sorted(SESSION_FIELDS))}"
        )
    try:
        return Config(**fields)
    except TypeError as error:
        raise InvalidArgumentError(f"the session's settings cannot be read: {error}") from None


__all__ = ["SESSION_FIELDS", "TaskService"]
